//! Reads every host of a job before it starts.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use jobs::environment::shell_word;
use jobs::inventory::Host;
use jobs::launch::{JobHost, Tools};
use node::{Node, Tree};

use crate::arguments::host::environment;
use crate::output;
use crate::output::Failure;
use crate::timeout::with_timeout;
use remote::{self, Limits, Shell, in_parallel};

/// A host, and what was read there.
pub(super) struct ProbedHost {
    pub(super) host: Host,
    pub(super) shell: Shell,
    tree: Tree,
    pub(super) node: Node,
    tools: Tools,
    address: Option<IpAddr>,
}

/// What to find on hosts.
pub(super) struct ProbeRequest<'w> {
    /// The program that the job runs.
    pub(super) program: &'w str,
    /// Directories to search for programs before the host's PATH.
    pub(super) path: &'w str,
    /// The working directory of the job.
    pub(super) directory: &'w str,
}

impl ProbedHost {
    pub(super) fn job_host(&self) -> JobHost<'_> {
        JobHost {
            name: &self.host.name,
            target: self.host.destination(),
            is_here: self.shell.is_local(),
            address: self.address,
            fabric: self.host.fabric,
            slots: self.host.slots,
            gpus: self.host.gpus,
            node: &self.node,
            tree: &self.tree,
            tools: &self.tools,
        }
    }
}

/// Reads all hosts in parallel. A host that cannot be read is an error, which is printed; if nothing is started, it is
/// assumed to be like this machine, with a note.
pub(super) fn probe_all(
    hosts: &[Host],
    request: &ProbeRequest,
    starts_nothing: bool,
) -> Result<(Vec<ProbedHost>, Vec<String>), Failure> {
    output::progress(&format!("reading {} hosts…", hosts.len()));
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    let mut failed: Option<Failure> = None;
    for (host, probed) in hosts.iter().zip(in_parallel(hosts, |host| probe(host, request))) {
        match probed {
            Ok(host) => found.push(host),
            Err(failure) if starts_nothing => {
                found.push(like_this_machine(host, request)?);
                notes.push(format!("{failure}: {} is assumed to be like this machine", host.name));
            }
            Err(failure) => {
                if let Some(before) = failed.replace(failure) {
                    output::error(&before);
                }
            }
        }
    }
    failed.map_or(Ok(found), Err).map(|found| (replace_loopback(found), notes))
}

fn like_this_machine(host: &Host, request: &ProbeRequest) -> Result<ProbedHost, Failure> {
    let shell = Shell::on(host.destination())?;
    let tools = tools(&Shell::on("localhost")?, request)?;
    let tree = Tree::live(None).with_environment(environment());
    let node = Node::read(&tree);
    let address = address(&shell);
    Ok(ProbedHost { host: host.clone(), shell, tree, node, tools, address })
}

/// This machine may resolve its own name to loopback, which others cannot reach: uses its address towards them instead.
fn replace_loopback(mut found: Vec<ProbedHost>) -> Vec<ProbedHost> {
    let is_loopback =
        |found: &ProbedHost| found.address.is_some_and(|address| address.is_loopback());
    let other = found.iter().find(|found| !found.shell.is_local() && !is_loopback(found));
    if let Some(to) = other.and_then(|other| other.address) {
        for here in found.iter_mut().filter(|found| found.shell.is_local() && is_loopback(found)) {
            here.address = crate::route::source_address((to, ANY_PORT).into()).ok();
        }
    }
    found
}

fn probe(host: &Host, request: &ProbeRequest) -> Result<ProbedHost, Failure> {
    let shell = Shell::on(host.destination())?;
    let tools = tools(&shell, request)?;
    let tree = match shell.is_local() {
        true => Tree::live(None).with_environment(environment()),
        false => remote::snapshot(&shell, &output::progress)?,
    };
    let node = Node::read(&tree);
    let address = address(&shell);
    Ok(ProbedHost { host: host.clone(), shell, tree, node, tools, address })
}

/// The programs that a host has.
pub(super) fn tools(shell: &Shell, request: &ProbeRequest) -> Result<Tools, Failure> {
    let probe = Tools::probe(request.path, request.directory, request.program);
    // The login shell may not be POSIX.
    let script = format!("exec sh -c {}", shell_word(&probe));
    let answer = remote::run_script(shell, &script, None, Limits::default())?.success("sh")?;
    Tools::parse(&answer.text()?)
        .ok_or_else(|| Failure::failed(format!("{}: cannot list the programs", shell.host())))
}

/// The address of the host, by the name in the ssh configuration if there is one.
fn address(shell: &Shell) -> Option<IpAddr> {
    let named = shell.is_ssh().then(|| ssh_name(shell.host())).flatten();
    let name = named.unwrap_or_else(|| shell.host().to_owned());
    let name = name.rsplit_once('@').map_or(name.as_str(), |(_, name)| name).to_owned();
    if let Ok(address) = name.parse() {
        return Some(address);
    }
    let waiting = format!("looking up {name}");
    let resolve = move || (name.as_str(), 0).to_socket_addrs().ok()?.next();
    with_timeout(RESOLVE_TIMEOUT, || waiting, resolve).ok()??.map(|address| address.ip())
}

/// From `ssh -G`, which does not connect.
fn ssh_name(host: &str) -> Option<String> {
    let mut ssh = Command::new("ssh");
    ssh.args(["-G", "--", host]).stdin(Stdio::null()).stderr(Stdio::null());
    let settings = with_timeout(
        RESOLVE_TIMEOUT,
        || format!("reading the ssh configuration of {host}"),
        move || ssh.output().ok(),
    );
    let settings = String::from_utf8(settings.ok()???.stdout).ok()?;
    settings.lines().find_map(|line| line.strip_prefix("hostname ")).map(str::to_owned)
}

/// The replacement of ssh for launchers, if hosts are not reached over ssh.
pub(super) fn ssh_replacement(found: &[ProbedHost]) -> Option<String> {
    found.iter().find_map(|found| found.shell.ssh_replacement())
}

/// ssh with its full path and our options, for launchers that connect to hosts themselves.
pub(super) fn ssh() -> Vec<String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&folders).map(|folder| folder.join("ssh"));
    let found = candidates.into_iter().find(|path| path.is_file());
    let ssh = found.unwrap_or_else(|| PathBuf::from("ssh")).to_string_lossy().into_owned();
    let options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=5"];
    std::iter::once(ssh).chain(options.map(str::to_owned)).collect()
}

/// Not connected to, only for the route.
const ANY_PORT: u16 = 9;
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
