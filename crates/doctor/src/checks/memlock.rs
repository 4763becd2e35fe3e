//! How much memory this process may pin.

use node::Limit;

use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "memlock",
    title: "this user may lock as much memory as it registers",
    why: "Registering memory with a device pins it, and pinned memory counts against the limit on \
          locked memory. Beyond it registration fails with ENOMEM; NCCL then goes over TCP and \
          says little of it. The capability IPC_LOCK lifts the limit, but in a container only \
          root has it in force, and in a user namespace (rootless) it does not count.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let process = &case.node.process;
    let (Some(limit), Some(uid)) = (process.memlock, process.uid) else {
        return vec![Finding::unknown("host", "the limit on locked memory is not known")];
    };
    let held = process.capabilities;
    let finding = match () {
        () if process.can_lock() => Finding::ok(
            "host",
            format!("user {uid} has CAP_IPC_LOCK in force: memory is locked without limit"),
        ),
        () if limit.soft.is_none() => {
            Finding::ok("host", format!("user {uid} may lock memory without limit"))
        }
        () => limited(case, uid, limit),
    };
    let mut finding = finding
        .read(Evidence::new("/proc/self/limits", format!("Max locked memory: {}", words(limit))));
    if let Some(held) = held {
        let value = format!("CapEff {:016x}, CapBnd {:016x}", held.effective, held.bounding);
        finding = finding.read(Evidence::new("/proc/self/status", value));
    }
    vec![finding.read(Evidence::new("/proc/self/status", format!("Uid {uid}")))]
}

fn limited(case: &Case<'_>, uid: u32, limit: Limit) -> Finding {
    let soft = size(limit.soft.unwrap_or(u64::MAX));
    if limit.hard.is_none() || case.node.process.can_raise_limits() {
        let summary = format!("user {uid} may lock {soft} now, and raise that without limit");
        return Finding::warning("host", summary).fix(
            "`ulimit -l unlimited` before the program, or run it by `wirelane exec -- COMMAND`.",
        );
    }
    let hard = limit.hard.unwrap_or(u64::MAX);
    let summary = format!("user {uid} may lock no more than {}", size(hard));
    let finding = if hard < ENOUGH_FOR_SOME {
        Finding::problem("host", summary)
    } else {
        Finding::warning("host", summary)
    };
    if case.node.process.initial_user_namespace == Some(false) {
        in_user_namespace(case, finding)
    } else if case.node.host.container.is_some() {
        in_container(case, uid, finding)
    } else {
        on_host(finding)
    }
}

/// Rootless containers: what they may lock is what the user who started them may.
fn in_user_namespace(case: &Case<'_>, finding: Finding) -> Finding {
    let finding = finding.read(case.file("/proc/self/uid_map")).fix(
        "Capabilities of a user namespace do not lift the limit: raise it for the user who starts \
         the container.",
    );
    on_host(finding)
}

fn on_host(finding: Finding) -> Finding {
    finding
        .fix(
            "printf '* soft memlock unlimited\\n* hard memlock unlimited\\n' > \
             /etc/security/limits.d/90-rdma.conf, then log in again.",
        )
        .fix("Services of systemd: `LimitMEMLOCK=infinity` in the unit.")
}

fn in_container(case: &Case<'_>, uid: u32, finding: Finding) -> Finding {
    let could_have =
        case.node.process.capabilities.is_some_and(|held| held.bounding >> IPC_LOCK & 1 == 1);
    let finding = match (uid, could_have) {
        (0, _) => {
            finding.fix("Add `capabilities: {add: [IPC_LOCK]}` to the container's securityContext.")
        }
        (_, true) => finding.fix(
            "IPC_LOCK was given, and is in force for root alone: run as user 0, or give the \
             program the file capability: `setcap cap_ipc_lock=+ep PROGRAM`.",
        ),
        (_, false) => finding.fix(
            "IPC_LOCK alone would not help a user other than root: the runtime's limit must be \
             raised.",
        ),
    };
    finding
        .fix(
            "containerd: a drop-in with `[Service]`, `LimitMEMLOCK=infinity` for \
             containerd.service, then restart it.",
        )
        .fix(
            "CRI-O: `[crio.runtime]`, `default_ulimits = [\"memlock=-1:-1\"]` in \
             /etc/crio/crio.conf.d/.",
        )
}

fn words(limit: Limit) -> String {
    let word = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
    format!("soft {}, hard {}", word(limit.soft), word(limit.hard))
}

fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 => format!("{} GiB", bytes >> 30),
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    }
}

/// Below this most programs cannot start.
const ENOUGH_FOR_SOME: u64 = 1 << 30;
/// CAP_IPC_LOCK.
const IPC_LOCK: u32 = 14;
