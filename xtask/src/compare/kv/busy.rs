//! Other work on the CPUs of servers and clients.

use std::process::{Child, Command, Stdio};

use super::super::tools;
use crate::{Failure, shell};

/// Loops that are killed on drop.
pub(super) struct Loops(Vec<Child>);

/// A loop on each of the two CPUs.
pub(super) fn start() -> Result<Loops, Failure> {
    let mut loops = Loops(Vec::new());
    for cpu in [0, 1] {
        let bound = tools::bound(cpu, "sh");
        // The kernel kills it when we exit.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(bound.get_program()).args(bound.get_args());
        command.args(["-c", "while :; do :; done"]).stdout(Stdio::null());
        let child = command.spawn().map_err(|error| shell::not_started(&command, &error))?;
        loops.0.push(child);
    }
    Ok(loops)
}

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
