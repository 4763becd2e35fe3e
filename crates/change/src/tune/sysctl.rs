//! Kernel settings: socket buffers for TCP, and memory reclaim of NUMA nodes.

use doctor::expected::memory::ZONE_RECLAIM_MODE;
use doctor::expected::queues::SOCKET_BUFFER;

use super::{Context, Profile, persistent};
use crate::{Change, Plan};

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    if context.profile == Profile::Throughput {
        propose_buffers(context, plan);
    }
    let reclaims = numbers(context, RECLAIM).first().is_some_and(|mode| *mode != ZONE_RECLAIM_MODE);
    if context.node.host.numa_nodes.len() > 1 && reclaims {
        let why = "a full NUMA node is reclaimed before another is used: programs wait for it";
        set(plan, RECLAIM, &ZONE_RECLAIM_MODE.to_string(), why);
    }
}

fn propose_buffers(context: &Context<'_>, plan: &mut Plan) {
    for name in ["net.core.rmem_max", "net.core.wmem_max"] {
        if let Some(now) = numbers(context, name).first().filter(|now| **now < SOCKET_BUFFER) {
            let why = format!("a socket may buffer {now} bytes, too few for a fast link");
            set(plan, name, &SOCKET_BUFFER.to_string(), &why);
        }
    }
    for name in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
        if let [min, default, max] = numbers(context, name)[..]
            && max < SOCKET_BUFFER
        {
            let why = format!("TCP may buffer {max} bytes, too few for a fast link");
            set(plan, name, &format!("{min} {default} {SOCKET_BUFFER}"), &why);
        }
    }
}

fn set(plan: &mut Plan, name: &str, value: &str, why: &str) {
    plan.step("sysctl", why, Change::value(path(name), value), true);
    plan.step("sysctl", persistent::WHY, persistent::sysctl(name, value), true);
}

fn numbers(context: &Context<'_>, name: &str) -> Vec<u64> {
    let text = context.tree.text(&path(name)).into_value().unwrap_or_default();
    text.split_whitespace().map_while(|word| word.parse().ok()).collect()
}

fn path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

const RECLAIM: &str = "vm.zone_reclaim_mode";
