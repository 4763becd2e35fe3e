//! Every host of a job, as it is before the job.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use jobs::inventory::Host;
use jobs::job::shell_word;
use jobs::launch::{Site, Tools};
use node::{Node, Tree};

use crate::arguments::host::environment;
use crate::output;
use crate::output::Failure;
use crate::timeout::with_timeout;
use remote::{self, Limits, Shell, in_parallel};

/// A host that was reached, and what it is like.
pub(super) struct Found {
    pub(super) host: Host,
    pub(super) shell: Shell,
    tree: Tree,
    pub(super) node: Node,
    tools: Tools,
    address: Option<IpAddr>,
}

/// What is looked for on hosts.
pub(super) struct Wanted<'w> {
    /// The program that the job runs.
    pub(super) program: &'w str,
    /// Folders with programs, before the host's own.
    pub(super) path: &'w str,
    /// The folder that the job runs in.
    pub(super) directory: &'w str,
}

impl Found {
    pub(super) fn site(&self) -> Site<'_> {
        Site {
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

/// Reaches all hosts at once. Every one that cannot be is named, in a line each.
pub(super) fn reach(hosts: &[Host], wanted: &Wanted) -> Result<Vec<Found>, Failure> {
    output::progress(&format!("looking at {} hosts…", hosts.len()));
    let mut found = Vec::new();
    let mut wrong: Option<Failure> = None;
    for looked in in_parallel(hosts, |host| look_at(host, wanted)) {
        match looked {
            Ok(host) => found.push(host),
            Err(failure) => {
                if let Some(before) = wrong.replace(failure) {
                    output::error(&before);
                }
            }
        }
    }
    wrong.map_or(Ok(found), Err).map(reachable)
}

/// This machine knows itself by loopback, where no other reaches it: what leads to the others is its address then.
fn reachable(mut found: Vec<Found>) -> Vec<Found> {
    let is_loopback = |found: &Found| found.address.is_some_and(|address| address.is_loopback());
    let other = found.iter().find(|found| !found.shell.is_local() && !is_loopback(found));
    if let Some(to) = other.and_then(|other| other.address) {
        for here in found.iter_mut().filter(|found| found.shell.is_local() && is_loopback(found)) {
            here.address = crate::route::source_address((to, ANY_PORT).into()).ok();
        }
    }
    found
}

fn look_at(host: &Host, wanted: &Wanted) -> Result<Found, Failure> {
    let shell = Shell::on(host.destination())?;
    let tools = tools(&shell, wanted)?;
    let tree = match shell.is_local() {
        true => Tree::live(None).with_environment(environment()),
        false => remote::snapshot(&shell, &output::progress)?,
    };
    let node = Node::read(&tree);
    let address = address(&shell);
    Ok(Found { host: host.clone(), shell, tree, node, tools, address })
}

/// The programs that a host has.
pub(super) fn tools(shell: &Shell, wanted: &Wanted) -> Result<Tools, Failure> {
    let probe = Tools::probe(wanted.path, wanted.directory, wanted.program);
    // The user's shell there may be of another kind.
    let script = format!("exec sh -c {}", shell_word(&probe));
    let answer = remote::run_script(shell, &script, None, Limits::default())?.success("sh")?;
    Tools::parse(&answer.text()?)
        .ok_or_else(|| Failure::failed(format!("{}: cannot list its programs", shell.host())))
}

/// Where its name leads; the settings of ssh may have another for it.
fn address(shell: &Shell) -> Option<IpAddr> {
    let named = shell.is_ssh().then(|| ssh_name(shell.host())).flatten();
    let name = named.unwrap_or_else(|| shell.host().to_owned());
    let name = name.rsplit_once('@').map_or(name.as_str(), |(_, name)| name).to_owned();
    if let Ok(address) = name.parse() {
        return Some(address);
    }
    let waiting = format!("looking up {name}");
    let look_up = move || (name.as_str(), 0).to_socket_addrs().ok()?.next();
    with_timeout(RESOLVER, || waiting, look_up).ok()??.map(|address| address.ip())
}

/// By `ssh -G`, which connects to nobody.
fn ssh_name(host: &str) -> Option<String> {
    let mut ssh = Command::new("ssh");
    ssh.args(["-G", "--", host]).stdin(Stdio::null()).stderr(Stdio::null());
    let settings =
        with_timeout(RESOLVER, || format!("asking ssh of {host}"), move || ssh.output().ok());
    let settings = String::from_utf8(settings.ok()???.stdout).ok()?;
    settings.lines().find_map(|line| line.strip_prefix("hostname ")).map(str::to_owned)
}

/// What stands in for ssh, if it is not ssh that leads to the hosts.
pub(super) fn agent(found: &[Found]) -> Option<String> {
    found.iter().find_map(|found| found.shell.agent())
}

/// For launchers that reach hosts themselves: ssh by its whole path, as we call it.
pub(super) fn ssh() -> Vec<String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&folders).map(|folder| folder.join("ssh"));
    let place = places.into_iter().find(|place| place.is_file());
    let ssh = place.unwrap_or_else(|| PathBuf::from("ssh")).to_string_lossy().into_owned();
    let options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=5"];
    std::iter::once(ssh).chain(options.map(str::to_owned)).collect()
}

/// None is called: only the way there is asked for.
const ANY_PORT: u16 = 9;
/// How long a resolver may take.
const RESOLVER: Duration = Duration::from_secs(5);
