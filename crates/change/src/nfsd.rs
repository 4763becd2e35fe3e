//! The kernel's NFS server: whether it runs, and whether it listens for RDMA.
//!
//! A listener can be added while it runs; none can be taken away but by stopping all of it. So taking back
//! stops it if it did not run before, and else starts it anew, which its other clients feel: that is done
//! only where the user asked for that.

use std::path::Path;

use node::Tree;
use rustix::process::{Pid, Signal, kill_process};

use super::{Error, Machine, State, export, program};

/// What its parts are called.
pub(super) fn parts(port: u16) -> Vec<String> {
    vec!["nfsd".into(), "mountd".into(), format!("RDMA port {port}"), FOLDER.into()]
}

/// As it shall be.
pub(super) fn wanted() -> State {
    let words = [Some(RUNS), Some(RUNS), Some(LISTENS), None];
    State::Values(words.map(|word| word.map(str::to_owned)).to_vec())
}

/// As it is.
pub(super) fn read(tree: &Tree, port: u16) -> State {
    let word = |is: bool, yes: &str, no: &str| Some((if is { yes } else { no }).to_owned());
    State::Values(vec![
        word(threads(tree) > 0, RUNS, STOPPED),
        word(!mountds(tree).is_empty(), RUNS, STOPPED),
        word(ports(tree).contains(&("rdma".into(), port)), LISTENS, DOES_NOT_LISTEN),
        word(tree.exists(THREADS), MOUNTED, NOT_MOUNTED),
    ])
}

/// Makes it so. `dirs` are exported by the caller; all others are somebody else's.
pub(super) fn set(
    machine: &Machine,
    port: u16,
    dirs: &[String],
    values: &[Option<String>],
) -> Result<(), Error> {
    let tree = &machine.look()?.tree;
    let is = |part: usize, word: &str| values.get(part).and_then(Option::as_deref) == Some(word);
    if is(0, RUNS) {
        if threads(tree) == 0 {
            start(tree, Serve::of_new())?;
        }
        return match ports(&machine.look()?.tree).contains(&("rdma".into(), port)) {
            listens if listens == is(2, LISTENS) => Ok(()),
            false => listen(machine, port),
            true => restart(machine, dirs),
        };
    }
    if threads(tree) > 0 {
        let others = others(tree, dirs);
        if !others.is_empty() {
            return Err(Error::failed(format!(
                "nfsd serves {} too, by other commands than ours, so it is not stopped",
                others.join(", ")
            )));
        }
        stop(tree)?;
    }
    if is(1, STOPPED) {
        mountds(tree).into_iter().try_for_each(end)?;
    }
    if is(3, NOT_MOUNTED) && tree.exists(THREADS) {
        program::run("umount", &[FOLDER])?;
    }
    Ok(())
}

/// Folders that are exported and not ours.
pub(super) fn others(tree: &Tree, dirs: &[String]) -> Vec<String> {
    export::dirs(tree).into_iter().filter(|dir| !dirs.contains(dir)).collect()
}

fn listen(machine: &Machine, port: u16) -> Result<(), Error> {
    machine.set_value(PORTS, &format!("rdma {port}")).map_err(|error| {
        Error::failed(format!(
            "nfsd does not listen for RDMA at port {port}: {error}; `rdma resource show cm_id` shows whether \
             another program has the port, and the kernel's log why else"
        ))
    })
}

/// Without the listener, since the file that has asked for one is gone by now.
fn restart(machine: &Machine, dirs: &[String]) -> Result<(), Error> {
    let tree = &machine.look()?.tree;
    let others = others(tree, dirs);
    if !others.is_empty() && !machine.may_restart() {
        return Err(Error::refused(format!(
            "nfsd also serves {}: its RDMA listener goes only by restarting it, which holds up its clients for \
             seconds; `wirelane nfs remove --restart-nfsd` allows that",
            others.join(", ")
        )));
    }
    let serve = Serve::as_now(tree);
    stop(tree)?;
    start(tree, serve)
}

/// How it is started where systemd does not do it.
struct Serve {
    threads: Option<u32>,
    port: Option<u16>,
    version_3: bool,
}

impl Serve {
    /// As its settings say. Version 3 needs rpcbind; without it the whole start would fail.
    fn of_new() -> Serve {
        Serve { threads: None, port: None, version_3: Path::new("/run/rpcbind.sock").exists() }
    }

    /// As it runs.
    fn as_now(tree: &Tree) -> Serve {
        let versions = tree.text("/proc/fs/nfsd/versions").into_value().unwrap_or_default();
        let tcp = ports(tree).into_iter().find(|(kind, _)| kind == "tcp");
        Serve {
            threads: Some(threads(tree)),
            port: tcp.map(|(_, port)| port),
            version_3: versions.split_whitespace().any(|version| version == "+3"),
        }
    }

    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.version_3 {
            words.extend(["-N".to_owned(), "3".to_owned()]);
        }
        words.extend(self.port.into_iter().flat_map(|port| ["-p".to_owned(), port.to_string()]));
        words.extend(self.threads.map(|threads| threads.to_string()));
        words
    }
}

fn start(tree: &Tree, serve: Serve) -> Result<(), Error> {
    if has_systemd(tree) {
        return program::run("systemctl", &["start", "nfs-server"]);
    }
    let words = serve.words();
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
    // Systemd does not stop threads that it did not start.
    program::run("rpc.nfsd", &["0"])
}

fn has_systemd(tree: &Tree) -> bool {
    tree.exists("/run/systemd/system")
}

fn threads(tree: &Tree) -> u32 {
    tree.number(THREADS).into_value().unwrap_or(0)
}

/// Kinds and ports that it listens at.
fn ports(tree: &Tree) -> Vec<(String, u16)> {
    let list = tree.text(PORTS).into_value().unwrap_or_default();
    let port = |line: &str| {
        let (kind, port) = line.split_once(' ')?;
        Some((kind.to_owned(), port.trim().parse().ok()?))
    };
    list.lines().filter_map(port).collect()
}

/// The processes that answer who may mount what.
fn mountds(tree: &Tree) -> Vec<i32> {
    let is = |pid: &String| {
        let name = tree.text(&format!("/proc/{pid}/comm")).into_value();
        name.is_some_and(|name| name == "rpc.mountd")
    };
    let numbers = tree.list("/proc").into_iter().filter(|name| name.parse::<u32>().is_ok());
    numbers.filter(is).filter_map(|pid| pid.parse().ok()).collect()
}

/// Ends a process, and waits a little until it is gone.
fn end(pid: i32) -> Result<(), Error> {
    let Some(process) = Pid::from_raw(pid) else { return Ok(()) };
    match kill_process(process, Signal::TERM) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(errno) => return Err(Error::call("end", &format!("rpc.mountd ({pid})"), errno)),
    }
    for _ in 0..100 {
        if !Path::new(&format!("/proc/{pid}")).exists() {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err(Error::failed(format!("rpc.mountd ({pid}) does not end")))
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
    fn a_server_without_rdma_is_not_what_is_wanted() {
        let (_dir, tree) = tree(&[
            ("proc/fs/nfsd/threads", "8\n"),
            ("proc/fs/nfsd/portlist", "tcp 2049\ntcp 2049\n"),
            ("proc/fs/nfsd/versions", "-3 +4 +4.1 +4.2\n"),
            ("proc/77/comm", "rpc.mountd\n"),
        ]);
        let now = read(&tree, 20049);
        assert!(!now.satisfies(&wanted()), "{now:?}");
        assert_eq!(Serve::as_now(&tree).words(), ["-N", "3", "-p", "2049", "8"]);
    }

    #[test]
    fn one_that_listens_is_and_none_is_none() {
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
    fn exports_of_others_are_known() {
        let table = "/data\t10.0.0.1(rw)\n/home\t10.0.0.1(rw)\n/home\t10.0.0.2(rw)\n";
        let (_dir, tree) = tree(&[("var/lib/nfs/etab", table)]);
        assert_eq!(others(&tree, &["/data".to_owned()]), ["/home"]);
        assert_eq!(others(&tree, &["/data".to_owned(), "/home".to_owned()]), [""; 0]);
    }
}
