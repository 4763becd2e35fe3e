//! A server to be measured: its process, memory and CPU time.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::super::tools::{self, Cpus};
use crate::Failure;

/// A running server, killed on drop.
pub(in super::super) struct Server {
    child: Child,
    /// The program; clients of our store are the same program.
    pub(super) program: String,
    pub(super) port: String,
    cpus: Cpus,
    log: PathBuf,
}

impl Server {
    /// Starts it on the servers' CPU, and waits until it listens on `port`.
    pub(super) fn start(program: &str, arguments: &[&str], port: String) -> Result<Self, Failure> {
        Server::start_on(Cpus::One, program, arguments, port)
    }

    /// As [`Server::start`], on these CPUs, which are also those of its clients.
    pub(super) fn start_on(
        cpus: Cpus,
        program: &str,
        arguments: &[&str],
        port: String,
    ) -> Result<Self, Failure> {
        let bound = cpus.server(program);
        // The kernel kills it when we exit. setpriv and taskset execute it, so the
        // child process is the server.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(bound.get_program()).args(bound.get_args());
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        // A server of ours logs every client: hundreds of lines in a comparison.
        let log = std::env::temp_dir().join(format!("wirelane-compare-{port}.log"));
        let file = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let child = command.stderr(file).spawn();
        let child = child.map_err(|error| format!("start {program}: {error}"))?;
        let mut server = Server { child, program: program.to_owned(), port, cpus, log };
        tools::wait_for_port(&server.port).map_err(|error| server.failure(&error))?;
        Ok(server)
    }

    /// Why it does not listen, with its last line.
    fn failure(&mut self, error: &str) -> Failure {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last = log.lines().last().unwrap_or_default();
        match self.child.try_wait() {
            Ok(Some(status)) => format!("{} ended with {status}: {last}", self.program),
            _ => format!("{}: {error}: {last}", self.program),
        }
    }

    /// A client of it.
    pub(super) fn client(&self, program: &str) -> Command {
        self.cpus.client(program)
    }

    /// Its resident memory in megabytes, including huge pages.
    pub(super) fn resident(&self) -> Result<f64, Failure> {
        let status = self.proc("status")?;
        let kilobytes = resident_kilobytes(&status);
        kilobytes.map(|kilobytes| kilobytes * 1024.0 / 1e6).ok_or_else(|| "no VmRSS".to_owned())
    }

    /// Its CPU time so far, of all threads, in ticks of 10 ms.
    pub(super) fn ticks(&self) -> Result<f64, Failure> {
        let stat = self.proc("stat")?;
        ticks(&stat).ok_or_else(|| format!("no times in {stat}"))
    }

    fn proc(&self, file: &str) -> Result<String, Failure> {
        let path = format!("/proc/{}/{file}", self.child.id());
        std::fs::read_to_string(&path).map_err(|error| format!("read {path}: {error}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

/// proc(5): VmRSS does not include huge pages.
fn resident_kilobytes(status: &str) -> Option<f64> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    Some(field("VmRSS:")? + field("HugetlbPages:").unwrap_or(0.0))
}

/// proc(5): utime and stime, fields 14 and 15; the name, field 2, may contain spaces.
fn ticks(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_included() {
        let status = "Name:\tx\nVmRSS:\t    1000 kB\nHugetlbPages:\t    2048 kB\n";
        assert_eq!(resident_kilobytes(status), Some(3048.0));
        assert_eq!(resident_kilobytes("VmRSS:\t 7 kB\n"), Some(7.0));
        assert_eq!(resident_kilobytes("Name:\tzombie\n"), None);
    }

    #[test]
    fn a_name_with_spaces_does_not_shift_the_times() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 100 1 1";
        assert_eq!(ticks(stat), Some(42.0));
    }
}
