//! NetworkManager: a keyfile for each connection, readable only by root. `man nm-settings-keyfile`.

use node::{Reading, Tree};

use super::super::persistent_file;
use super::Interface;
use super::networkd::fits;
use crate::{Change, Content, State, Target};

/// The settings that the device has already, or the reason why NetworkManager does not manage it.
pub(super) fn existing_settings(tree: &Tree, netdev: &str) -> Option<String> {
    let folders =
        ["/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections"];
    for folder in folders {
        match tree.names(folder) {
            Reading::Refused(_) => {
                return Some(format!("{folder} is readable only by root: run it again with sudo"));
            }
            seen => {
                let names = seen.into_value().unwrap_or_default().into_iter();
                let mut others = names
                    .filter(|name| !name.starts_with("wirelane-"))
                    .map(|name| format!("{folder}/{name}"));
                if let Some(path) =
                    others.find(|path| has_line(tree, path, &format!("interface-name={netdev}")))
                {
                    return Some(format!("{path} sets it"));
                }
            }
        }
    }
    // Files of older releases of Red Hat's family.
    let script = format!("/etc/sysconfig/network-scripts/ifcfg-{netdev}");
    if tree.exists(&script) {
        return Some(format!("{script} sets it"));
    }
    unmanaged(tree, netdev)
}

/// Whether NetworkManager is configured not to manage the device.
fn unmanaged(tree: &Tree, netdev: &str) -> Option<String> {
    let folder = "/etc/NetworkManager/conf.d";
    let files = tree.list(folder).into_iter().map(|name| format!("{folder}/{name}"));
    let mut files = files.chain(["/etc/NetworkManager/NetworkManager.conf".to_owned()]);
    let may_match = |device: &str| match device.trim().strip_prefix("interface-name:") {
        Some(pattern) => fits(pattern.trim_start_matches('='), netdev),
        None => !device.trim().is_empty(),
    };
    let leaves = |path: &String| {
        let text = tree.text(path).into_value().unwrap_or_default();
        let mut lists =
            text.lines().filter_map(|line| line.trim().strip_prefix("unmanaged-devices"));
        lists.any(|list| list.trim_start_matches(['+', '=', ' ']).split([';', ',']).any(may_match))
    };
    files
        .find(leaves)
        .map(|path| format!("{path} excludes devices from NetworkManager, perhaps this one"))
}

fn has_line(tree: &Tree, path: &str, line: &str) -> bool {
    tree.text(path).value().is_some_and(|text| text.lines().any(|known| known.trim() == line))
}

pub(super) fn path(interface: &Interface) -> String {
    format!("/etc/NetworkManager/system-connections/wirelane-{}.nmconnection", interface.name)
}

pub(super) fn file(interface: &Interface) -> Change {
    let content = Content::Text(persistent_file(&lines(interface)));
    // NetworkManager ignores a keyfile that others may read.
    let wanted = State::File { content, mode: Some(0o600), owner: None };
    Change { target: Target::File { path: path(interface) }, wanted }
}

fn lines(interface: &Interface) -> Vec<String> {
    let name = &interface.name;
    let (kind, more) = match (&interface.parent, interface.vlan, &interface.ipoib) {
        (Some(parent), Some(id), _) => {
            ("vlan", vec!["[vlan]".to_owned(), format!("parent={parent}"), format!("id={id}")])
        }
        (_, _, Some(mode)) => {
            ("infiniband", vec!["[infiniband]".to_owned(), format!("transport-mode={mode}")])
        }
        _ => ("ethernet", Vec::new()),
    };
    let mut lines = vec![
        "[connection]".to_owned(),
        format!("id=wirelane-{name}"),
        format!("type={kind}"),
        format!("interface-name={name}"),
        "autoconnect-priority=10".to_owned(),
    ];
    lines.extend(more);
    let (v6, v4): (Vec<_>, Vec<_>) =
        interface.addresses.iter().partition(|address| address.contains(':'));
    lines.extend(family("ipv4", &v4, "disabled"));
    lines.extend(family("ipv6", &v6, "link-local"));
    lines
}

/// The fabric never gets the default route.
fn family(section: &str, addresses: &[&String], without: &str) -> Vec<String> {
    let method = if addresses.is_empty() { without } else { "manual" };
    let mut lines =
        vec![format!("[{section}]"), format!("method={method}"), "never-default=true".to_owned()];
    lines.extend(
        addresses.iter().enumerate().map(|(at, address)| format!("address{}={address}", at + 1)),
    );
    lines
}
