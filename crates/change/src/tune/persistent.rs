//! Files that make a setting again after a restart. Each belongs to one setting, so that one can go without
//! another.

use crate::Change;

/// A file of ours with these lines.
pub(super) fn file(path: impl Into<String>, lines: &[String]) -> Change {
    let mut text = "# Written by `wirelane tune`; `wirelane revert` reverts it.\n".to_owned();
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    Change::file(path, text)
}

/// Values of /sys, set at each start where systemd is: `man tmpfiles.d`.
pub(super) fn values(item: &str, lines: &[String]) -> Change {
    file(format!("/etc/tmpfiles.d/90-wirelane-{item}.conf"), lines)
}

/// A setting of the kernel: `man sysctl.d`.
pub(super) fn sysctl(name: &str, value: &str) -> Change {
    file(format!("/etc/sysctl.d/90-wirelane-{name}.conf"), &[format!("{name} = {value}")])
}

/// A rule for udev, which acts whenever the device appears.
pub(super) fn rule(item: &str, of: &str, rule: String) -> Change {
    file(format!("/etc/udev/rules.d/90-wirelane-{item}-{of}.rules"), &[rule])
}

/// Why such a file is in a plan.
pub(super) const WHY: &str = "the same after a restart";
