//! The kernel's NFS server: whether it runs, and whether it listens for RDMA.
//!
//! A listener can be added while it runs, and removed only by stopping the server. So a revert
//! stops it if it did not run before, and restarts it otherwise. A restart delays its other clients, so it is done
//! only where the user allowed it.

use std::path::Path;

use node::Tree;
use rustix::process::{Pid, Signal, kill_process};

use super::{Error, Machine, State, export, program};

/// The names of its parts.
pub(super) fn parts(port: u16) -> Vec<String> {
    vec!["nfsd".into(), "mountd".into(), format!("RDMA port {port}"), FOLDER.into()]
}

/// The wanted state.
pub(super) fn wanted() -> State {
    let words = [Some(RUNS), Some(RUNS), Some(LISTENS), None];
    State::Values(words.map(|word| word.map(str::to_owned)).to_vec())
}

/// The current state.
pub(super) fn read(tree: &Tree, port: u16) -> State {
    let word = |is: bool, yes: &str, no: &str| Some((if is { yes } else { no }).to_owned());
    State::Values(vec![
        word(threads(tree) > 0, RUNS, STOPPED),
        word(!mountds(tree).is_empty(), RUNS, STOPPED),
        word(ports(tree).contains(&("rdma".into(), port)), LISTENS, DOES_NOT_LISTEN),
        word(tree.exists(THREADS), MOUNTED, NOT_MOUNTED),
    ])
}

/// Sets its state. `dirs` are exported by us; all others were exported by others.
pub(super) fn set(
    machine: &Machine,
    port: u16,
    dirs: &[String],
    values: &[Option<String>],
) -> Result<(), Error> {
    let tree = &machine.reader()?.tree;
    let is = |part: usize, word: &str| values.get(part).and_then(Option::as_deref) == Some(word);
    if is(0, RUNS) {
        if threads(tree) == 0 {
            start(tree, NfsdOptions::for_new())?;
        }
        return match ports(&machine.reader()?.tree).contains(&("rdma".into(), port)) {
            listens if listens == is(2, LISTENS) => Ok(()),
            false => listen(machine, port),
            true => restart(machine, dirs),
        };
    }
    if threads(tree) > 0 {
        let others = others(tree, dirs);
        if !others.is_empty() {
            return Err(Error::failed(format!(
                "nfsd also serves {}, which wirelane does not export: nfsd is not stopped",
                others.join(", ")
            )));
        }
        stop(tree)?;
    }
    if is(1, STOPPED) {
        mountds(tree).into_iter().try_for_each(terminate)?;
    }
    if is(3, NOT_MOUNTED) && tree.exists(THREADS) {
        program::run("umount", &[FOLDER])?;
    }
    Ok(())
}

/// Exported folders that are not ours.
pub(super) fn others(tree: &Tree, dirs: &[String]) -> Vec<String> {
    export::dirs(tree).into_iter().filter(|dir| !dirs.contains(dir)).collect()
}

fn listen(machine: &Machine, port: u16) -> Result<(), Error> {
    machine.set_value(PORTS, &format!("rdma {port}")).map_err(|error| {
        Error::failed(format!(
            "nfsd cannot listen for RDMA on port {port}: {error}; check with `rdma resource show cm_id` whether \
             another program uses the port, and read the kernel's log"
        ))
    })
}

/// Restarts it without the listener: the file that configures one is removed before.
fn restart(machine: &Machine, dirs: &[String]) -> Result<(), Error> {
    let tree = &machine.reader()?.tree;
    let others = others(tree, dirs);
    if !others.is_empty() && !machine.may_restart() {
        return Err(Error::refused(format!(
            "nfsd also serves {}: its RDMA listener is removed only by a restart, which delays its clients for \
             seconds; `wirelane nfs remove --restart-nfsd` allows that",
            others.join(", ")
        )));
    }
    let serve = NfsdOptions::as_running(tree);
    stop(tree)?;
    start(tree, serve)
}

/// The options of `rpc.nfsd`, where systemd does not start it.
struct NfsdOptions {
    threads: Option<u32>,
    port: Option<u16>,
    version_3: bool,
}

impl NfsdOptions {
    /// The configured defaults. Version 3 needs rpcbind; without it the start would fail.
    fn for_new() -> NfsdOptions {
        NfsdOptions {
            threads: None,
            port: None,
            version_3: Path::new("/run/rpcbind.sock").exists(),
        }
    }

    /// The options of the running server.
    fn as_running(tree: &Tree) -> NfsdOptions {
        let versions = tree.text("/proc/fs/nfsd/versions").into_value().unwrap_or_default();
        let tcp = ports(tree).into_iter().find(|(kind, _)| kind == "tcp");
        NfsdOptions {
            threads: Some(threads(tree)),
            port: tcp.map(|(_, port)| port),
            version_3: versions.split_whitespace().any(|version| version == "+3"),
        }
    }

    fn arguments(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.version_3 {
            words.extend(["-N".to_owned(), "3".to_owned()]);
        }
        words.extend(self.port.into_iter().flat_map(|port| ["-p".to_owned(), port.to_string()]));
        words.extend(self.threads.map(|threads| threads.to_string()));
        words
    }
}

fn start(tree: &Tree, serve: NfsdOptions) -> Result<(), Error> {
    if has_systemd(tree) {
        return program::run("systemctl", &["start", "nfs-server"]);
    }
    let words = serve.arguments();
    program::run("rpc.nfsd", &words.iter().map(String::as_str).collect::<Vec<_>>())?;
    if mountds(tree).is_empty() {
        let words: &[&str] = if serve.version_3 { &[] } else { &["-N", "3"] };
        program::run("rpc.mountd", words)?;
    }
    Ok(())
}

fn stop(tree: &Tree) -> Result<(), Error> {
    if has_systemd(tree) {
        program::run("systemctl", &["stop", "nfs-server"])?;
    }
    // systemd does not stop threads that it did not start.
    program::run("rpc.nfsd", &["0"])
}

fn has_systemd(tree: &Tree) -> bool {
    tree.exists("/run/systemd/system")
}

fn threads(tree: &Tree) -> u32 {
    tree.number(THREADS).into_value().unwrap_or(0)
}

/// Transports and ports that it listens on.
fn ports(tree: &Tree) -> Vec<(String, u16)> {
    let list = tree.text(PORTS).into_value().unwrap_or_default();
    let port = |line: &str| {
        let (kind, port) = line.split_once(' ')?;
        Some((kind.to_owned(), port.trim().parse().ok()?))
    };
    list.lines().filter_map(port).collect()
}

/// The process IDs of `rpc.mountd`.
fn mountds(tree: &Tree) -> Vec<i32> {
    let is = |pid: &String| {
        let name = tree.text(&format!("/proc/{pid}/comm")).into_value();
        name.is_some_and(|name| name == "rpc.mountd")
    };
    let numbers = tree.list("/proc").into_iter().filter(|name| name.parse::<u32>().is_ok());
    numbers.filter(is).filter_map(|pid| pid.parse().ok()).collect()
}

/// Terminates a process, and waits up to 5 s for its end.
fn terminate(pid: i32) -> Result<(), Error> {
    let Some(process) = Pid::from_raw(pid) else { return Ok(()) };
    match kill_process(process, Signal::TERM) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(errno) => return Err(Error::call("terminate", &format!("rpc.mountd ({pid})"), errno)),
    }
    for _ in 0..100 {
        if !Path::new(&format!("/proc/{pid}")).exists() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err(Error::failed(format!("rpc.mountd ({pid}) does not exit after SIGTERM")))
}

const FOLDER: &str = "/proc/fs/nfsd";
const THREADS: &str = "/proc/fs/nfsd/threads";
const PORTS: &str = "/proc/fs/nfsd/portlist";

const RUNS: &str = "running";
const STOPPED: &str = "stopped";
const LISTENS: &str = "listening";
const DOES_NOT_LISTEN: &str = "not listening";
const MOUNTED: &str = "mounted";
const NOT_MOUNTED: &str = "not mounted";

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let dir = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        let tree = Tree::at(dir.path()).expect("a tree");
        (dir, tree)
    }

    #[test]
    fn a_server_without_rdma_is_not_in_the_wanted_state() {
        let (_dir, tree) = tree(&[
            ("proc/fs/nfsd/threads", "8\n"),
            ("proc/fs/nfsd/portlist", "tcp 2049\ntcp 2049\n"),
            ("proc/fs/nfsd/versions", "-3 +4 +4.1 +4.2\n"),
            ("proc/77/comm", "rpc.mountd\n"),
        ]);
        let now = read(&tree, 20049);
        assert!(!now.satisfies(&wanted()), "{now:?}");
        assert_eq!(NfsdOptions::as_running(&tree).arguments(), ["-N", "3", "-p", "2049", "8"]);
    }

    #[test]
    fn a_listening_server_is_in_the_wanted_state_and_a_stopped_one_is_not() {
        let (_dir, listening) = tree(&[
            ("proc/fs/nfsd/threads", "8\n"),
            ("proc/fs/nfsd/portlist", "rdma 20049\ntcp 2049\n"),
            ("proc/77/comm", "rpc.mountd\n"),
        ]);
        assert!(read(&listening, 20049).satisfies(&wanted()));
        assert!(!read(&listening, 20050).satisfies(&wanted()), "another port");
        let (_dir, none) = tree(&[("proc/1/comm", "init\n")]);
        let words = [STOPPED, STOPPED, DOES_NOT_LISTEN, NOT_MOUNTED];
        assert_eq!(read(&none, 20049), State::Values(words.map(|w| Some(w.to_owned())).to_vec()));
    }

    #[test]
    fn exports_of_others_are_found() {
        let table = "/data\t10.0.0.1(rw)\n/home\t10.0.0.1(rw)\n/home\t10.0.0.2(rw)\n";
        let (_dir, tree) = tree(&[("var/lib/nfs/etab", table)]);
        assert_eq!(others(&tree, &["/data".to_owned()]), ["/home"]);
        assert_eq!(others(&tree, &["/data".to_owned(), "/home".to_owned()]), [""; 0]);
    }
}
