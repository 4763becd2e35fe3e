//! Files that apply a setting again after a restart. Each belongs to one setting, so that each can be reverted
//! alone.

use crate::Change;

/// A file with these lines.
pub(super) fn file(path: impl Into<String>, lines: &[String]) -> Change {
    // Without the command's name: `tune` and `setup` write the same files.
    let mut text = "# Written by wirelane; `wirelane revert` reverts it.\n".to_owned();
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    Change::file(path, text)
}

/// Values of /sys, set at each boot by systemd: `man tmpfiles.d`.
pub(super) fn values(item: &str, lines: &[String]) -> Change {
    file(format!("/etc/tmpfiles.d/90-wirelane-{item}.conf"), lines)
}

/// A setting of the kernel: `man sysctl.d`.
pub(super) fn sysctl(name: &str, value: &str) -> Change {
    file(format!("/etc/sysctl.d/90-wirelane-{name}.conf"), &[format!("{name} = {value}")])
}

/// A udev rule, which runs whenever the device appears.
pub(super) fn rule(item: &str, device: &str, rule: String) -> Change {
    file(format!("/etc/udev/rules.d/90-wirelane-{item}-{device}.rules"), &[rule])
}

/// The reason for such a file in a plan.
pub(super) const WHY: &str = "the same after a restart";
