//! The limit on locked memory of this process.

use node::Limit;

use crate::expected::memlock::{MIN_BYTES, MemlockState, size};
use crate::{Check, CheckInput, Evidence, Finding, Severity};

pub(super) const CHECK: Check = Check {
    name: "memlock",
    title: "this user may lock as much memory as it registers",
    why: "Registering memory with a device pins it, and pinned memory counts against the limit on \
          locked memory. Beyond it registration fails with ENOMEM; NCCL then falls back to TCP \
          without a clear message. The capability IPC_LOCK lifts the limit, but in a container it \
          is effective only for root, and in a user namespace (rootless) it has no effect.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let Some(state) = MemlockState::new(input.node) else {
        return vec![Finding::unknown("host", "the limit on locked memory is not known")];
    };
    let MemlockState { uid, limit, .. } = state;
    let finding = match () {
        () if state.has_ipc_lock => {
            Finding::ok("host", format!("user {uid} has CAP_IPC_LOCK: locked memory is unlimited"))
        }
        () if limit.soft.is_none() => {
            Finding::ok("host", format!("locked memory of user {uid} is unlimited"))
        }
        () => limited(input, &state),
    };
    let mut finding = finding.evidence(Evidence::new(
        "/proc/self/limits",
        format!("Max locked memory: {}", limit_text(limit)),
    ));
    if let Some(held) = input.node.process.capabilities {
        let value = format!("CapEff {:016x}, CapBnd {:016x}", held.effective, held.bounding);
        finding = finding.evidence(Evidence::new("/proc/self/status", value));
    }
    vec![finding.evidence(Evidence::new("/proc/self/status", format!("Uid {uid}")))]
}

fn limited(input: &CheckInput<'_>, state: &MemlockState) -> Finding {
    let MemlockState { uid, limit, .. } = *state;
    let soft = size(limit.soft.unwrap_or(u64::MAX));
    if limit.hard.is_none() || input.node.process.can_raise_limits() {
        let summary = format!("user {uid} may lock {soft}, and may raise the limit to unlimited");
        return Finding::warning("host", summary).fix(
            "`ulimit -l unlimited` before the program, or run it with `wirelane exec -- COMMAND`.",
        );
    }
    let hard = limit.hard.unwrap_or(u64::MAX);
    let severity = if hard < MIN_BYTES { Severity::Problem } else { Severity::Warning };
    let summary = format!("user {uid} may lock only {}", size(hard));
    let mut finding = Finding::new(severity, "host", summary);
    if !state.is_initial_user_namespace {
        finding = finding.evidence(input.file("/proc/self/uid_map"));
    }
    state.fixes().into_iter().fold(finding, Finding::fix)
}

fn limit_text(limit: Limit) -> String {
    let text = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
    format!("soft {}, hard {}", text(limit.soft), text(limit.hard))
}
