//! Mooncake Store on this machine: its master, a node with the memory, and a client that reads values in batches.
//!
//! Its processes have threads of their own for transfers, so neither it nor our store is bound to one CPU.

use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::super::tools::{self, Cpus};
use super::mooncake;
use super::server::Server;
use crate::{Failure, shell};

/// A running store.
pub(super) struct MooncakeStore {
    node: Child,
    /// The node ends when this is closed.
    _stdin: Option<ChildStdin>,
    master: Server,
    python: PathBuf,
}

impl MooncakeStore {
    pub(super) fn start() -> Result<Self, Failure> {
        let programs = mooncake::environment()?.join("bin");
        let (port, metrics) = (tools::free_port()?, tools::free_port()?);
        let master = programs.join("mooncake_master").to_string_lossy().into_owned();
        let arguments = ["-rpc_port", &port, "-metrics_port", &metrics];
        let master = Server::start_on(Cpus::All, &master, &arguments, port.clone())?;
        let python = programs.join("python");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(&python).args(["-c", SCRIPT, "node"]);
        command.args([address(&master), MEMORY.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut node =
            command.spawn().map_err(|error| format!("start {}: {error}", python.display()))?;
        let (stdin, stdout) = (node.stdin.take(), node.stdout.take());
        let store = MooncakeStore { node, _stdin: stdin, master, python };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line);
        }
        match line.trim() {
            "ready" => Ok(store),
            other => Err(format!("the node of Mooncake Store did not start: {other:?}")),
        }
    }

    /// Values per second, with sixteen in a batch.
    pub(super) fn gets(&self, size: usize, keys: usize, reads: usize) -> Result<Vec<f64>, Failure> {
        let mut command = Command::new(&self.python);
        command.args(["-c", SCRIPT, "gets", &address(&self.master)]);
        command.args([size, keys, reads, BATCH].map(|number| number.to_string()));
        let output = shell::output(&mut tools::limited(command))?;
        let last = output.lines().last().unwrap_or_default();
        Ok(vec![tools::number(last.trim())?])
    }
}

impl Drop for MooncakeStore {
    fn drop(&mut self) {
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

fn address(master: &Server) -> String {
    format!("127.0.0.1:{}", master.port)
}

const SCRIPT: &str = include_str!("mooncake_store.py");
const MEMORY: u64 = 1 << 30;
const BATCH: usize = 16;
