//! systemd-networkd: the first matching file, in the order of names, sets a device. `man systemd.network`.

use node::Tree;

use super::super::persistent_file;
use super::Interface;
use crate::Change;

/// A file that sets the device already, or may.
pub(super) fn existing_settings(tree: &Tree, netdev: &str) -> Option<String> {
    // Files of the distribution in /usr/lib come after ours in the order of names.
    for folder in ["/etc/systemd/network", "/run/systemd/network"] {
        let names = tree.list(folder).into_iter();
        for name in names.filter(|name| name.ends_with(".network") && !name.starts_with(OURS)) {
            let path = format!("{folder}/{name}");
            let text = tree.text(&path).into_value().unwrap_or_default();
            if may_match(&text, netdev) {
                return Some(format!("{path} sets it"));
            }
        }
    }
    None
}

/// A file that matches devices by anything but their names may match any device.
fn may_match(text: &str, netdev: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let in_match = lines.by_ref().skip_while(|line| *line != "[Match]").skip(1);
    let settings: Vec<&str> = in_match.take_while(|line| !line.starts_with('[')).collect();
    let names: Vec<&str> = settings.iter().filter_map(|line| line.strip_prefix("Name=")).collect();
    if names.is_empty() {
        return true;
    }
    names.iter().flat_map(|names| names.split_whitespace()).any(|pattern| fits(pattern, netdev))
}

/// Whether a shell pattern matches; true for a pattern with more than stars.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    if pattern.contains(['[', '?', '!', '{', '\\']) {
        return true;
    }
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(begin) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(end)
}

/// A VLAN has a file that creates it, and a line in the file of its parent.
pub(super) fn files(interfaces: &[Interface]) -> Vec<Change> {
    let mut files: Vec<Change> = interfaces.iter().filter_map(vlan).collect();
    let own = interfaces.iter().map(|interface| &interface.name);
    let mut names: Vec<&String> =
        own.chain(interfaces.iter().filter_map(|one| one.parent.as_ref())).collect();
    names.sort();
    names.dedup();
    for name in names {
        let mut lines = network(name);
        let above = interfaces.iter().filter(|one| one.parent.as_ref() == Some(name));
        lines.extend(above.map(|one| format!("VLAN={}", one.name)));
        let addresses =
            interfaces.iter().filter(|one| one.name == *name).flat_map(|one| &one.addresses);
        lines.extend(addresses.map(|address| format!("Address={address}")));
        files.push(file(&format!("{name}.network"), &lines));
    }
    files
}

fn vlan(interface: &Interface) -> Option<Change> {
    let (name, id) = (&interface.name, interface.vlan?);
    let lines = ["[NetDev]", &format!("Name={name}"), "Kind=vlan", "[VLAN]", &format!("Id={id}")];
    Some(file(&format!("{name}.netdev"), &lines.map(str::to_owned)))
}

/// Booting does not wait for the fabric.
fn network(name: &str) -> Vec<String> {
    let link = ["[Link]", "RequiredForOnline=no", "[Network]", "LinkLocalAddressing=ipv6"];
    let mut lines = vec!["[Match]".to_owned(), format!("Name={name}")];
    lines.extend(link.map(str::to_owned));
    lines
}

fn file(name: &str, lines: &[String]) -> Change {
    Change::file(format!("/etc/systemd/network/{OURS}{name}"), persistent_file(lines))
}

const OURS: &str = "10-wirelane-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_by_name_matches_only_its_names() {
        let by_name = "[Match]\nName=en* eth0\n\n[Network]\nDHCP=yes\nName=ib0\n";
        assert!(may_match(by_name, "ens1f0np0") && may_match(by_name, "eth0"));
        assert!(!may_match(by_name, "ib0"));
        assert!(may_match("[Match]\nType=ether\n", "ib0"), "a match by type may match");
        assert!(fits("*", "x") && fits("en*np*", "ens1f0np0") && !fits("en*np1", "ens1f0np0"));
        assert!(fits("ens[12]", "ib0"), "an unsupported pattern may match");
    }
}
