//! Servers to scrape, ended with the test.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

/// A process that serves metrics.
pub(crate) struct Running {
    child: Child,
    /// The address of its metrics: `127.0.0.1:1234`.
    pub(crate) address: String,
    /// The address of a store's links.
    links: Option<String>,
    /// Kept open for its log.
    _log: Lines<BufReader<ChildStderr>>,
}

/// The program, without an RDMA library whatever this machine has.
pub(crate) fn wirelane(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane"));
    command.args(arguments).env("WIRELANE_LIBIBVERBS", "/nowhere/libibverbs.so.1");
    command
}

/// An exporter of a tree.
pub(crate) fn exporter(tree: &Path) -> Running {
    let mut command =
        wirelane(&["exporter", "--listen", "127.0.0.1:0", "--rdma-interval", "1", "--root"]);
    command.arg(tree);
    Running::start(command, "HTTP ")
}

/// A store with a disk.
pub(crate) fn store(folder: &Path) -> Running {
    let any = "127.0.0.1:0";
    let mut command = wirelane(&["serve", "--memory", "64MiB", "--http", any, "--listen", any]);
    command.arg("--data-dir").arg(folder.join("store"));
    Running::start(command, "RDMA")
}

impl Running {
    /// Reads its output up to the line that starts with `last`.
    fn start(mut command: Command, last: &str) -> Running {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut greeting: Vec<String> = Vec::new();
        while !greeting.last().is_some_and(|line| line.starts_with(last)) {
            let line = log.next().unwrap_or_else(|| panic!("it ended: {greeting:?}"));
            greeting.push(line.expect("text"));
        }
        let word = |line: &str, mark: &str| {
            let rest = line.split_once(mark)?.1;
            Some(rest.split([' ', '/']).next()?.to_owned())
        };
        let find = |begin: &str, mark: &str| {
            greeting.iter().filter(|line| line.starts_with(begin)).find_map(|line| word(line, mark))
        };
        let address = find("HTTP", "http://").unwrap_or_else(|| panic!("no address: {greeting:?}"));
        Running { child, address, links: find("links", "links "), _log: log }
    }

    pub(crate) fn scrape(&self) -> String {
        let url = format!("http://{}/metrics", self.address);
        let curl = Command::new("curl").args(["-sS", "--fail", "--max-time", "20", &url]).output();
        let curl = curl.expect("curl runs");
        assert!(curl.status.success(), "{}", String::from_utf8_lossy(&curl.stderr));
        String::from_utf8(curl.stdout).expect("text")
    }

    /// Writes and reads over links and gRPC, including missing keys.
    pub(crate) fn traffic(&self) {
        let links = self.links.as_deref().expect("a store");
        let kv = |arguments: &[&str]| {
            let output = wirelane(&["kv", "--server", links]).args(arguments).output();
            output.expect("the program runs")
        };
        let bench = kv(&["bench", "--ops", "2000", "--value-size", "4096", "--keys", "100"]);
        assert!(bench.status.success(), "{}", String::from_utf8_lossy(&bench.stderr));
        assert!(kv(&["put", "key", "value"]).status.success());
        assert_eq!(kv(&["get", "nothing"]).status.code(), Some(1));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
