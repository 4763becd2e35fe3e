//! How much memory this process may pin.

use node::Limit;

use crate::limits::memlock::{MIN, MemlockState, size};
use crate::{Case, Check, Evidence, Finding, Verdict};

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
    let Some(state) = MemlockState::of(case.node) else {
        return vec![Finding::unknown("host", "the limit on locked memory is not known")];
    };
    let MemlockState { uid, limit, .. } = state;
    let finding = match () {
        () if state.has_ipc_lock => Finding::ok(
            "host",
            format!("user {uid} has CAP_IPC_LOCK in force: memory is locked without limit"),
        ),
        () if limit.soft.is_none() => {
            Finding::ok("host", format!("user {uid} may lock memory without limit"))
        }
        () => limited(case, &state),
    };
    let mut finding = finding
        .read(Evidence::new("/proc/self/limits", format!("Max locked memory: {}", words(limit))));
    if let Some(held) = case.node.process.capabilities {
        let value = format!("CapEff {:016x}, CapBnd {:016x}", held.effective, held.bounding);
        finding = finding.read(Evidence::new("/proc/self/status", value));
    }
    vec![finding.read(Evidence::new("/proc/self/status", format!("Uid {uid}")))]
}

fn limited(case: &Case<'_>, state: &MemlockState) -> Finding {
    let MemlockState { uid, limit, .. } = *state;
    let soft = size(limit.soft.unwrap_or(u64::MAX));
    if limit.hard.is_none() || case.node.process.can_raise_limits() {
        let summary = format!("user {uid} may lock {soft} now, and raise that without limit");
        return Finding::warning("host", summary).fix(
            "`ulimit -l unlimited` before the program, or run it by `wirelane exec -- COMMAND`.",
        );
    }
    let hard = limit.hard.unwrap_or(u64::MAX);
    let verdict = if hard < MIN { Verdict::Problem } else { Verdict::Warning };
    let summary = format!("user {uid} may lock no more than {}", size(hard));
    let mut finding = Finding::new(verdict, "host", summary);
    if !state.is_initial_user_namespace {
        finding = finding.read(case.file("/proc/self/uid_map"));
    }
    state.fixes().into_iter().fold(finding, Finding::fix)
}

fn words(limit: Limit) -> String {
    let word = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
    format!("soft {}, hard {}", word(limit.soft), word(limit.hard))
}
