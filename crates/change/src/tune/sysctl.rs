//! Settings of the kernel: socket buffers for what uses TCP, and memory of the other NUMA node.

use doctor::limits::memory::ZONE_RECLAIM_MODE;
use doctor::limits::queues::SOCKET_BUFFER;

use super::{Ask, Profile, persistent};
use crate::{Change, Plan};

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    if ask.profile == Profile::Throughput {
        propose_buffers(ask, plan);
    }
    let reclaims = numbers(ask, RECLAIM).first().is_some_and(|mode| *mode != ZONE_RECLAIM_MODE);
    if ask.node.host.numa_nodes.len() > 1 && reclaims {
        let why = "a full NUMA node is emptied before the other is used: programs wait for it";
        set(plan, RECLAIM, &ZONE_RECLAIM_MODE.to_string(), why);
    }
}

fn propose_buffers(ask: &Ask<'_>, plan: &mut Plan) {
    for name in ["net.core.rmem_max", "net.core.wmem_max"] {
        if let Some(now) = numbers(ask, name).first().filter(|now| **now < SOCKET_BUFFER) {
            let why = format!("a socket may hold {now} bytes, too few for a fast link");
            set(plan, name, &SOCKET_BUFFER.to_string(), &why);
        }
    }
    for name in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
        if let [least, usual, most] = numbers(ask, name)[..]
            && most < SOCKET_BUFFER
        {
            let why = format!("TCP may hold {most} bytes, too few for a fast link");
            set(plan, name, &format!("{least} {usual} {SOCKET_BUFFER}"), &why);
        }
    }
}

fn set(plan: &mut Plan, name: &str, value: &str, why: &str) {
    plan.step("sysctl", why, Change::value(path(name), value), true);
    plan.step("sysctl", persistent::WHY, persistent::sysctl(name, value), true);
}

fn numbers(ask: &Ask<'_>, name: &str) -> Vec<u64> {
    let text = ask.tree.text(&path(name)).into_value().unwrap_or_default();
    text.split_whitespace().map_while(|word| word.parse().ok()).collect()
}

fn path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

const RECLAIM: &str = "vm.zone_reclaim_mode";
