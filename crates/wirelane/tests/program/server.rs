//! A server that a test starts, and its end.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;

use super::{json, wirelane};

/// A server on free ports, ended with the test.
pub(crate) struct Server {
    pub(crate) child: Child,
    /// The address of HTTP.
    pub(crate) address: String,
    /// The address of links.
    pub(crate) links: String,
    pub(crate) greeting: Vec<String>,
    pub(crate) log: Lines<BufReader<ChildStderr>>,
}

impl Server {
    pub(crate) fn start(more: &[&str]) -> Self {
        Server::start_on("127.0.0.1:0", more)
    }

    pub(crate) fn start_on(listen: &str, more: &[&str]) -> Self {
        let mut command = wirelane(&["serve", "--http", "127.0.0.1:0", "--listen", listen]);
        command.args(more);
        Server::of(command)
    }

    /// Starts a server with this command.
    pub(crate) fn of(mut command: Command) -> Self {
        let child = command.stderr(Stdio::piped()).spawn().expect("the server starts");
        let mut server = Server::reading(child);
        assert!(server.read_greeting(), "it ended after {:?}", server.greeting);
        server
    }

    /// The same, if the server may end before it serves: then its output.
    pub(crate) fn try_of(mut command: Command) -> Result<Self, Output> {
        let child = command.stderr(Stdio::piped()).spawn().expect("the program runs");
        let mut server = Server::reading(child);
        if server.read_greeting() {
            return Ok(server);
        }
        let status = server.child.wait().expect("it ends");
        let stderr = server.greeting.join("\n").into_bytes();
        Err(Output { status, stdout: Vec::new(), stderr })
    }

    fn reading(mut child: Child) -> Self {
        let log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let [address, links] = [const { String::new() }; 2];
        Server { child, address, links, greeting: Vec::new(), log }
    }

    /// Reads the first lines; returns whether the server serves.
    fn read_greeting(&mut self) -> bool {
        let mut is_serving = false;
        for line in self.log.by_ref() {
            self.greeting.push(line.expect("text"));
            is_serving = self.greeting.last().is_some_and(|line| line.starts_with("RDMA"));
            if is_serving {
                break;
            }
        }
        if is_serving {
            self.address = self.after("HTTP  ").split_once("://").expect("a URL").1.to_owned();
            self.links = self.after("links ");
        }
        is_serving
    }

    /// The word after these in the first lines. The last one: if devices are slow to answer, the address of links follows
    /// when they are open.
    fn after(&self, mark: &str) -> String {
        let words =
            |line: &'_ String| Some(line.strip_prefix(mark)?.split_whitespace().next()?.to_owned());
        let found = self.greeting.iter().rev().find_map(words);
        found.unwrap_or_else(|| panic!("no address after {mark} in {:?}", self.greeting))
    }

    /// GET with curl, as in the greeting.
    pub(crate) fn get(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.address);
        let curl = Command::new("curl").args(["-sS", "--max-time", "10", &url]).output();
        let curl = curl.expect("curl runs");
        assert!(curl.status.success(), "{}", String::from_utf8_lossy(&curl.stderr));
        String::from_utf8(curl.stdout).expect("text")
    }

    pub(crate) fn status(&self) -> Value {
        json(&self.get("/api/v1/transport/status"))
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    pub(crate) fn exit_code(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let kill = Command::new("kill").args([name, &pid]).status().expect("kill runs");
    assert!(kill.success());
}
