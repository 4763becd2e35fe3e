//! Mooncake's transfer engine over the lab's first wire, with its own benchmark: blocks of 64 KiB, sixteen in a
//! batch, one thread. It checks no value.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use super::super::tools;
use crate::{Failure, pypi};

/// Its programs and packages, downloaded on the host if needed.
pub(super) fn environment() -> Result<PathBuf, Failure> {
    pypi::environment("compare", PACKAGES)
}

/// Its benchmark. Its Python parts are not used.
pub(super) fn program() -> Result<PathBuf, Failure> {
    let libraries = environment()?.join("lib");
    let versions = fs::read_dir(&libraries)
        .map_err(|error| format!("read {}: {error}", libraries.display()))?;
    let program =
        |version: fs::DirEntry| version.path().join("site-packages/mooncake/transfer_engine_bench");
    let program = versions.flatten().map(program).find(|program| program.exists());
    program.ok_or_else(|| format!("no transfer_engine_bench in {}", libraries.display()))
}

/// MB/s of an operation, read or write, from rxe0 to the memory of a target on rxe1.
pub(super) fn bandwidth(program: &Path, operation: &str) -> Result<Vec<f64>, Failure> {
    let target = Target::start(program)?;
    let mut initiator = bench(program, 0, "initiator", "rxe0", "10.77.0.1");
    initiator.args([format!("-segment_id={}", target.segment), format!("-operation={operation}")]);
    initiator.args(["-duration=3", "-report_unit=MB"]);
    let output = tools::limited(initiator).output();
    let output = output.map_err(|error| format!("start {}: {error}", program.display()))?;
    let output = String::from_utf8_lossy(&output.stderr);
    throughput(&output).map(|rate| vec![rate]).ok_or_else(|| format!("its output: {output}"))
}

/// The end whose memory is read and written, killed on drop.
struct Target {
    child: Child,
    /// Its address, which also identifies its memory.
    segment: String,
    /// Kept open, since it may write more.
    _stderr: BufReader<ChildStderr>,
}

impl Target {
    fn start(program: &Path) -> Result<Self, Failure> {
        let bound = bench(program, 1, "target", "rxe1", "10.77.0.2");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(bound.get_program()).args(bound.get_args());
        command.envs(SETTINGS).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("start setpriv: {error}"))?;
        let stderr = child.stderr.take().expect("it is a pipe");
        let mut output = BufReader::new(stderr);
        let segment = output.by_ref().lines().map_while(Result::ok).find_map(|line| segment(&line));
        let mut target = Target { child, segment: String::new(), _stderr: output };
        target.segment = segment.ok_or("the target ended before it listened")?;
        // It listens before its memory is registered, and does not report the registration.
        std::thread::sleep(Duration::from_secs(3));
        Ok(target)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn bench(program: &Path, cpu: u32, mode: &str, device: &str, address: &str) -> Command {
    let mut command = tools::bound(cpu, &program.to_string_lossy());
    command.args([format!("-mode={mode}"), format!("-device_name={device}")]);
    command.args([format!("-local_server_name={address}")]);
    command.args(["-protocol=rdma", "-metadata_server=P2PHANDSHAKE"]);
    command.args(["-block_size=65536", "-batch_size=16", "-threads=1", "-buffer_size=16777216"]);
    command.envs(SETTINGS);
    command
}

fn segment(line: &str) -> Option<String> {
    let (_, address) = line.split_once("P2P handshake, listening on ")?;
    Some(address.trim().to_owned())
}

/// From its last line: Test completed: duration 3.01, batch count 64, throughput 22.28 MB/s
fn throughput(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.contains("Test completed"))?;
    line.split_once("throughput ")?.1.strip_suffix(" MB/s")?.parse().ok()
}

const PACKAGES: &[&str] = &["mooncake-transfer-engine-non-cuda==0.3.13.post1"];

/// RoCE v2 of the IPv4 address; and one polling thread instead of two, which is faster on
/// one CPU (20.4 instead of 15.6 MB/s for reads, two runs each, in the lab).
const SETTINGS: [(&str, &str); 2] = [("MC_GID_INDEX", "1"), ("MC_WORKERS_PER_CTX", "1")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_log_is_parsed() {
        let output = "I1115 10:43:31.5 247 transfer_engine_impl.cpp:183] Transfer Engine RPC using P2P \
                    handshake, listening on 10.77.0.2:15374";
        assert_eq!(segment(output), Some("10.77.0.2:15374".to_owned()));
        let output = "I1115 440] Worker 0 stopped!\nI1115 10:43:41.7 270 transfer_engine_bench.cpp:569] \
                    Test completed: duration 5.04, batch count 52, throughput 10.81 MB/s\nI1115 bye\n";
        assert_eq!(throughput(output), Some(10.81));
        assert_eq!(throughput("E1115 Failed to open segment"), None);
    }
}
