//! ifupdown: stanzas of /etc/network/interfaces and of the files that it includes. `man interfaces`.

use node::Tree;

use super::super::persistent_file;
use super::Interface;
use crate::Change;

/// Whether files of `interfaces.d` are read at all.
pub(super) fn reads_folder(tree: &Tree) -> bool {
    let text = tree.text(MAIN).into_value().unwrap_or_default();
    text.lines().any(|line| {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("source"), Some(path)) => {
                path.trim_start_matches("/etc/network/") == "interfaces.d/*"
            }
            (Some("source-directory"), Some(path)) => {
                path.trim_start_matches("/etc/network/").trim_end_matches('/') == "interfaces.d"
            }
            _ => false,
        }
    })
}

/// The file that has a stanza for the device already.
pub(super) fn existing_settings(tree: &Tree, netdev: &str) -> Option<String> {
    let names = tree.list(FOLDER).into_iter().filter(|name| !name.starts_with(OURS));
    let files = names.map(|name| format!("{FOLDER}/{name}"));
    let mut files = std::iter::once(MAIN.to_owned()).chain(files);
    let has = |path: &String| {
        let text = tree.text(path).into_value().unwrap_or_default();
        text.lines().any(|line| names_device(line, netdev))
    };
    files.find(has).map(|path| format!("{path} sets it"))
}

fn names_device(line: &str, netdev: &str) -> bool {
    let mut words = line.split_whitespace();
    let stanza = words.next().is_some_and(|word| {
        matches!(word, "iface" | "auto" | "mapping") || word.starts_with("allow-")
    });
    stanza && words.any(|word| word == netdev)
}

/// A device name with a dot is a VLAN to ifupdown; its file names must not have dots.
pub(super) fn file(interface: &Interface) -> Change {
    let name = &interface.name;
    let mut lines = vec![format!("auto {name}")];
    for address in &interface.addresses {
        let family = if address.contains(':') { "inet6" } else { "inet" };
        lines.push(format!("iface {name} {family} static"));
        lines.push(format!("    address {address}"));
    }
    Change::file(format!("{FOLDER}/{OURS}{}", name.replace('.', "-")), persistent_file(&lines))
}

const MAIN: &str = "/etc/network/interfaces";
const FOLDER: &str = "/etc/network/interfaces.d";
const OURS: &str = "wirelane-";
