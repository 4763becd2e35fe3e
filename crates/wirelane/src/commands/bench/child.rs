//! A server that this process starts, on this host or over ssh, and that ends with it.
//!
//! It reads a one-time key from stdin, prints its address to stdout, and ends when its stdin is closed: so it ends
//! however this process ends, and no other client can use it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use fabric::session::{Credentials, Key};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::output::Failure;
use crate::settings::Global;
use crate::timeout::with_timeout;
use remote::{self, Shell};

/// A running server.
pub(super) struct ServerProcess {
    child: Child,
    /// Closing it ends the server.
    stdin: Option<ChildStdin>,
    pub(super) address: SocketAddr,
    pub(super) credentials: Credentials,
}

impl ServerProcess {
    /// Starts a server on this host.
    pub(super) fn start_local(global: &Global) -> Result<ServerProcess, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("find this program: {error}")))?;
        let mut command = Command::new(program);
        command.args(["bench", "serve", "--for-parent", "--listen", "127.0.0.1:0"]);
        // Errors of the server appear on our stderr.
        command.args(["--log-level", "error"]);
        for (flag, file) in [
            ("--config", &global.config),
            ("--libibverbs", &global.libibverbs),
            ("--libfabric", &global.libfabric),
        ] {
            command.args(file.iter().flat_map(|file| [flag.as_ref(), file.as_os_str()]));
        }
        let started = start(command, None, &one_time_key()?, LOCAL_START_TIMEOUT)?;
        started.ok_or_else(|| {
            Failure::failed("start the server: it ended immediately; try `wirelane bench serve`")
        })
    }

    /// Starts a server on another host over the user's ssh. If the program is not installed there, it is uploaded, and
    /// removed at the end. `digits` is the key for its client.
    pub(super) fn start_remote(
        host: &str,
        listen: &str,
        digits: &str,
    ) -> Result<ServerProcess, Failure> {
        let shell = Shell::on(host)?;
        let serve = format!("bench serve --for-parent --log-level error --listen {listen}");
        let installed = quiet(shell.command(&[], &format!("exec wirelane {serve}")));
        if let Some(server) = start(installed, None, digits, REMOTE_START_TIMEOUT)? {
            return Ok(server);
        }
        let (own, length) = remote::own_program()?;
        let script = remote::upload_script(length, &serve);
        let started =
            start(quiet(shell.command(&[], &script)), Some(own), digits, REMOTE_START_TIMEOUT)?;
        started.ok_or_else(|| {
            Failure::failed(format!(
                "start `wirelane bench serve` on {host} via {}: it does not start; try `{}`, and start it there manually",
                shell.program(),
                shell.test_command()
            ))
        })
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It ends when its stdin is closed; kill it if it hangs.
        for _ in 0..300 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Discards stderr: ssh prints an error on a host without the program, which is expected.
fn quiet(mut command: Command) -> Command {
    command.stderr(Stdio::null());
    command
}

/// Starts it and reads its address; `None`: it ended before it printed one.
fn start(
    mut command: Command,
    program: Option<File>,
    digits: &str,
    limit: Duration,
) -> Result<Option<ServerProcess>, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let wrong = |error: io::Error| Failure::failed(format!("run {name}: {error}"));
    let (key, digits) = (Key::from_hex("parent", digits)?, digits.to_owned());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(wrong)?;
    let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let handshake = match (stdin.take(), stdout) {
        (Some(into), Some(from)) => {
            let waiting = || format!("starting the server, for {} s at most …", limit.as_secs());
            with_timeout(limit, waiting, move || exchange(into, from, program, &digits))?
        }
        _ => None,
    };
    if let Some((into, address)) = handshake.flatten() {
        let credentials = Credentials::Key(key);
        return Ok(Some(ServerProcess { child, stdin: Some(into), address, credentials }));
    }
    let ended = child.try_wait().ok().flatten().and_then(|status| status.code());
    let _ = child.kill();
    let _ = child.wait();
    match ended {
        Some(SSH_FAILED) => {
            Err(Failure::failed(format!("{name}: the connection failed or was refused")))
        }
        _ => Ok(None),
    }
}

/// Sends the program, if it must be uploaded, and the key; reads the address.
fn exchange(
    mut into: ChildStdin,
    from: ChildStdout,
    program: Option<File>,
    digits: &str,
) -> Option<(ChildStdin, SocketAddr)> {
    if let Some(mut program) = program {
        io::copy(&mut program, &mut into).ok()?;
    }
    writeln!(into, "{digits}").ok()?;
    let mut line = String::new();
    BufReader::new(from.take(MAX_LINE_BYTES)).read_line(&mut line).ok()?;
    Some((into, line.trim().parse().ok()?))
}

/// A key for servers that end with this process.
pub(super) fn one_time_key() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(32) => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        _ => Err(Failure::failed(
            "generate a key: the system has no random numbers — see getrandom(2)",
        )),
    }
}

/// The exit code of ssh when ssh itself failed.
const SSH_FAILED: i32 = 255;
const LOCAL_START_TIMEOUT: Duration = Duration::from_secs(20);
const REMOTE_START_TIMEOUT: Duration = Duration::from_secs(40);
const MAX_LINE_BYTES: u64 = 256;
