//! A folder that the kernel's NFS server exports to a client.
//!
//! `exportfs` is called for this export only: re-reading all files would also apply an
//! administrator's unfinished edits.

use node::Tree;

use super::{Error, State, program};

/// Those of its options that we set; or that it is not exported.
pub(super) fn read(tree: &Tree, dir: &str, client: &str) -> State {
    let table = tree.text(TABLE).into_value().unwrap_or_default();
    let options = table.lines().find_map(|line| options(line, dir, client));
    State::all(options.unwrap_or_else(|| NOT_EXPORTED.to_owned()), 1)
}

/// Exports it with these options, or unexports it.
pub(super) fn set(dir: &str, client: &str, options: Option<&str>) -> Result<(), Error> {
    let export = format!("{}:{dir}", bracketed(client));
    match options {
        Some(options) if options != NOT_EXPORTED => {
            program::run("exportfs", &["-o", options, &export])
        }
        _ => program::run("exportfs", &["-u", &export]),
    }
}

/// All exported folders.
pub(super) fn dirs(tree: &Tree) -> Vec<String> {
    let table = tree.text(TABLE).into_value().unwrap_or_default();
    let mut dirs: Vec<String> =
        table.lines().filter_map(|line| Some(line.split_once('\t')?.0.to_owned())).collect();
    dirs.dedup();
    dirs
}

/// From a line `/srv<TAB>10.0.0.0/24(rw,sync,wdelay,…)` for this folder and client: those options that we set.
fn options(line: &str, dir: &str, client: &str) -> Option<String> {
    let (of, rest) = line.split_once('\t')?;
    let (to, options) = rest.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    if of != dir || to != client {
        return None;
    }
    let mut ours: Vec<&str> = Vec::new();
    for option in options.split(',') {
        let set = OURS.contains(&option) || option.starts_with("fsid=");
        if set && !ours.contains(&option) {
            ours.push(option);
        }
    }
    Some(ours.join(","))
}

/// IPv6 addresses are in brackets where a colon follows.
fn bracketed(client: &str) -> String {
    match client.split_once('/') {
        Some((address, prefix)) if address.contains(':') => format!("[{address}]/{prefix}"),
        None if client.contains(':') => format!("[{client}]"),
        _ => client.to_owned(),
    }
}

pub(super) const NOT_EXPORTED: &str = "not exported";

/// The export table of `exportfs` and `rpc.mountd`.
const TABLE: &str = "/var/lib/nfs/etab";

/// Options that we set; the table also lists all others, with their defaults.
const OURS: [&str; 8] = [
    "rw",
    "ro",
    "sync",
    "async",
    "root_squash",
    "no_root_squash",
    "no_subtree_check",
    "subtree_check",
];

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "/data\t10.77.0.0/24(rw,sync,wdelay,hide,nocrossmnt,secure,root_squash,no_all_squash,\
        no_subtree_check,secure_locks,acl,no_pnfs,fsid=1,anonuid=65534,sec=sys,rw,root_squash)";

    #[test]
    fn only_our_options_are_read_from_the_table() {
        let found = options(LINE, "/data", "10.77.0.0/24");
        assert_eq!(found.as_deref(), Some("rw,sync,root_squash,no_subtree_check,fsid=1"));
        assert_eq!(options(LINE, "/data", "10.77.0.1"), None);
        assert_eq!(options(LINE, "/dat", "10.77.0.0/24"), None);
        assert_eq!(options("no options", "/data", "x"), None);
    }

    #[test]
    fn addresses_with_colons_are_bracketed() {
        assert_eq!(bracketed("fd00::/64"), "[fd00::]/64");
        assert_eq!(bracketed("fd00::1"), "[fd00::1]");
        assert_eq!(bracketed("10.0.0.0/24"), "10.0.0.0/24");
    }
}
