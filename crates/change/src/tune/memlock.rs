//! The limit of locked memory: memory that a NIC reads and writes must be locked.

use doctor::expected::memlock::{LIMITS_LINES, RUNTIME_FIXES, SYSTEMD_LINES};

use super::{Context, persistent};
use crate::Plan;

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    if context.is_container() {
        plan.advise("memlock", CONTAINER, RUNTIME_FIXES.map(str::to_owned).to_vec());
        return;
    }
    let lines = LIMITS_LINES.map(str::to_owned);
    let limits = persistent::file("/etc/security/limits.d/90-wirelane-memlock.conf", &lines);
    plan.step("memlock", "users who log in may register memory of any size", limits, true);
    let lines = SYSTEMD_LINES.map(str::to_owned);
    let services = persistent::file("/etc/systemd/system.conf.d/90-wirelane-memlock.conf", &lines);
    plan.step("memlock", "services too, after `systemctl daemon-reexec`", services, true);
}

const CONTAINER: &str = "the limit of a container is set by its runtime, on the host";
