//! Hosts for ssh: a real ssh and sshd, with private keys and settings.
//!
//! [`Hosts::here`] are this machine under several names: ssh talks to a private sshd over a pipe, so that no port is
//! used. [`Hosts::apart`] have separate network, name and process namespaces, joined by a switch; local commands run in
//! one more of them. They end with the test, however it ends.
#![allow(dead_code, reason = "each program of tests uses a part of it")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A host name that does not answer.
pub(crate) const DEAD: &str = "dead";

pub(crate) struct Hosts {
    /// Declared before the folder that they use, so that they are dropped first.
    running: Vec<Namespaces>,
    folder: TempDir,
}

impl Hosts {
    /// Names of this machine.
    pub(crate) fn here(names: &[&str]) -> Hosts {
        let hosts = Hosts { running: Vec::new(), folder: tempfile::tempdir().expect("a folder") };
        let sshd = |name: &str| {
            let config = hosts.file(&format!("{name}/sshd_config"));
            let log = hosts.file(&format!("{name}/log"));
            format!("ProxyCommand {SSHD} -i -f {} -E {}", config.display(), log.display())
        };
        hosts.prepare(names, sshd, "HostName 127.0.0.1\nPort 1");
        hosts
    }

    /// Hosts in separate networks: the first has 10.77.0.2. Needs root; without it, prints that the test was skipped.
    pub(crate) fn apart(names: &[&str]) -> Option<Hosts> {
        if !rustix::process::getuid().is_root() {
            eprintln!("skipped: hosts with networks of their own are for root to make");
            return None;
        }
        let mut hosts =
            Hosts { running: Vec::new(), folder: tempfile::tempdir().expect("a folder") };
        let address = |name: &str| {
            let at = names.iter().position(|other| *other == name).expect("a name");
            format!("10.77.0.{}", at + 2)
        };
        let way = |name: &str| format!("HostName {}", address(name));
        hosts.prepare(names, way, "HostName 10.77.0.99");
        let all: String = names.iter().map(|name| format!("{} {name}\n", address(name))).collect();
        fs::write(hosts.file("hosts"), format!("127.0.0.1 localhost\n10.77.0.1 machine\n{all}"))
            .expect("a file");
        let machine = Namespaces::start("machine", &hosts, &[], "true");
        machine
            .run("ip link set lo up; ip link add name switch type bridge; ip link set switch up");
        machine.run("ip address add 10.77.0.1/24 dev switch");
        for (at, name) in names.iter().enumerate() {
            let config = hosts.file(&format!("{name}/sshd_config"));
            let log = hosts.file(&format!("{name}/log"));
            let sshd = format!("{SSHD} -f {} -E {}", config.display(), log.display());
            let host = Namespaces::start(name, &hosts, PROCESSES, &sshd);
            let pid = host.child.id();
            machine.run(&format!("ip link add port{at} type veth peer name eth0 netns {pid}"));
            machine.run(&format!("ip link set port{at} master switch up"));
            host.run(&format!("ip address add {}/24 dev eth0", address(name)));
            host.run("ip link set lo up; ip link set eth0 up");
            hosts.running.push(host);
        }
        hosts.running.push(machine);
        Some(hosts)
    }

    /// A local command that uses the ssh of these hosts.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = match self.running.last() {
            Some(machine) => machine.enter(program),
            None => Command::new(program),
        };
        command.env("PATH", self.path());
        command
    }

    /// A search path with the `ssh` of these hosts.
    pub(crate) fn path(&self) -> String {
        format!("{}:{PATH}", self.file("machine/bin").display())
    }

    /// Creates a program with this text on a host.
    pub(crate) fn give(&self, host: &str, program: &str, text: &str) {
        let path = self.file(&format!("{host}/bin/{program}"));
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a mode");
    }

    /// Installs the tested `wirelane` on a host.
    pub(crate) fn give_wirelane(&self, host: &str) {
        let own = env!("CARGO_BIN_EXE_wirelane");
        self.give(host, "wirelane", &format!("#!/bin/sh\nexec {own} \"$@\"\n"));
    }

    /// Files left in the temporary folder of a host.
    pub(crate) fn left(&self, host: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.file(&format!("{host}/tmp"))).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    /// Ends a host like a power cut, without notification. Only for separate hosts.
    pub(crate) fn cut_power(&mut self, host: &str) {
        let at = self.running.iter().position(|running| running.name == host).expect("a host");
        drop(self.running.remove(at));
    }

    /// A file of the hosts' folder: NAME/bin, NAME/tmp, NAME/log are a host's.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Writes keys, the ssh settings of each host from `way`, and those of each sshd.
    fn prepare(&self, names: &[&str], way: impl Fn(&str) -> String, dead: &str) {
        let folder = self.folder.path().display();
        for key in ["host_key", "client_key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]).arg(self.file(key));
            assert!(keygen.status().expect("ssh-keygen runs").success());
        }
        let key = fs::read_to_string(self.file("host_key.pub")).expect("a key");
        fs::write(self.file("known_hosts"), format!("* {key}")).expect("a file");
        // ssh's default key exchange takes 0.1 s of CPU, which is a twentieth of all tests.
        let mut config = format!(
            "Host *\nIdentityFile {folder}/client_key\nIdentitiesOnly yes\nIdentityAgent none\n\
             UserKnownHostsFile {folder}/known_hosts\nGlobalKnownHostsFile /dev/null\n\
             StrictHostKeyChecking yes\nKexAlgorithms curve25519-sha256\nHost {DEAD}\n{dead}\n"
        );
        for name in names {
            config += &format!("Host {name}\n{}\n", way(name));
        }
        fs::write(self.file("ssh_config"), config).expect("a file");
        for name in names.iter().chain(&["machine"]) {
            self.furnish(name);
        }
        if rustix::process::getuid().is_root() {
            fs::create_dir_all("/run/sshd").expect("where sshd of root locks itself in");
        }
    }

    /// A host's folders, its ssh and its sshd's settings.
    fn furnish(&self, name: &str) {
        let folder = self.folder.path().display();
        for part in ["bin", "tmp"] {
            fs::create_dir_all(self.file(&format!("{name}/{part}"))).expect("a folder");
        }
        let ssh = which("ssh").expect("ssh is installed");
        let ssh = format!("#!/bin/sh\nexec {} -F {folder}/ssh_config \"$@\"\n", ssh.display());
        self.give(name, "ssh", &ssh);
        // Without PAM, sshd refuses users with `!` as password, even with a key.
        let shadow = fs::read_to_string("/etc/shadow").unwrap_or_default();
        let pam = if shadow.starts_with("root:!") { "yes" } else { "no" };
        let config = format!(
            "HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/client_key.pub\nStrictModes no\n\
             UsePAM {pam}\nPermitRootLogin yes\nPasswordAuthentication no\nPidFile none\n\
             KbdInteractiveAuthentication no\nPrintMotd no\nPrintLastLog no\nMaxStartups 100\n\
             SetEnv TMPDIR={folder}/{name}/tmp PATH={folder}/{name}/bin:{PATH} \
             WIRELANE_LIBIBVERBS=/nowhere/libibverbs.so.1\n"
        );
        fs::write(self.file(&format!("{name}/sshd_config")), config).expect("a file");
    }
}

/// A host with its own network and name. Its first process reads from this one; with a PID namespace, the kernel ends
/// all its processes when that one ends.
struct Namespaces {
    name: String,
    child: Child,
}

impl Namespaces {
    fn start(name: &str, hosts: &Hosts, more: &[&str], first: &str) -> Namespaces {
        let names = hosts.file("hosts");
        let script = format!(
            "set -e; mount --bind {} /etc/hosts; mount -t tmpfs tmpfs /dev/shm; hostname {name}; \
             {first}; echo ready; exec cat > /dev/null",
            names.display()
        );
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "--uts", "--ipc", "--mount"]).args(more);
        unshare.args(["sh", "-c", &script]);
        let mut child =
            unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n", "{name} does not start");
        Namespaces { name: name.to_owned(), child }
    }

    /// Runs a program there, as a child process, which can be signalled.
    fn enter(&self, program: &str) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--target", &self.child.id().to_string(), "--net", "--uts", "--ipc"]);
        nsenter.args(["--mount", "--wd=.", "--", program]);
        nsenter
    }

    fn run(&self, script: &str) {
        let output = self.enter("sh").args(["-ec", script]).output().expect("nsenter runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {script}: {said}", self.name);
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn which(program: &str) -> Option<PathBuf> {
    let folders = std::env::var("PATH").unwrap_or_default();
    let found = |folder: &str| Some(Path::new(folder).join(program)).filter(|path| path.is_file());
    folders.split(':').find_map(found)
}

/// A private PID namespace.
const PROCESSES: &[&str] = &["--pid", "--fork", "--mount-proc", "--kill-child"];
const SSHD: &str = "/usr/sbin/sshd";
pub(crate) const PATH: &str = "/usr/bin:/bin:/usr/sbin:/sbin";
