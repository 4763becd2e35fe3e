//! A server that this program starts for itself, here or by ssh, and that ends with it.
//!
//! It gets a one-time key by its stdin, tells its address by its stdout, and ends when its stdin is closed: so it ends
//! however we end, and nobody else can use it.

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

/// A server of our own.
pub(super) struct Helper {
    child: Child,
    /// Its end is the server's.
    stdin: Option<ChildStdin>,
    pub(super) address: SocketAddr,
    pub(super) credentials: Credentials,
}

impl Helper {
    /// On this host.
    pub(super) fn here(global: &Global) -> Result<Helper, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("find this program: {error}")))?;
        let mut command = Command::new(program);
        command.args(["bench", "serve", "--for-parent", "--listen", "127.0.0.1:0"]);
        // What went wrong there is told here too.
        command.args(["--log-level", "error"]);
        for (flag, file) in [
            ("--config", &global.config),
            ("--libibverbs", &global.libibverbs),
            ("--libfabric", &global.libfabric),
        ] {
            command.args(file.iter().flat_map(|file| [flag.as_ref(), file.as_os_str()]));
        }
        let started = start(command, None, &one_time_key()?, HERE)?;
        started.ok_or_else(|| {
            Failure::failed("start the other end: it ended at once; try `wirelane bench serve`")
        })
    }

    /// On another host, by the user's own ssh. Where the program is not there it is sent along, and removed. `digits` are
    /// the key of who may use it.
    pub(super) fn there(host: &str, listen: &str, digits: &str) -> Result<Helper, Failure> {
        let shell = Shell::on(host)?;
        let serve = format!("bench serve --for-parent --log-level error --listen {listen}");
        let there = quiet(shell.command(&[], &format!("exec wirelane {serve}")));
        if let Some(helper) = start(there, None, digits, THERE)? {
            return Ok(helper);
        }
        let (own, length) = remote::own_program()?;
        let script = remote::upload_script(length, &serve);
        let started = start(quiet(shell.command(&[], &script)), Some(own), digits, THERE)?;
        started.ok_or_else(|| {
            Failure::failed(format!(
                "start `wirelane bench serve` on {host} by {}: it does not start; try `{}`, and start it there by hand",
                shell.program(),
                shell.test_command()
            ))
        })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It ends by itself; what hangs is ended.
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

/// What ssh says of a host without the program is nothing to worry about.
fn quiet(mut command: Command) -> Command {
    command.stderr(Stdio::null());
    command
}

/// Starts it and hears its address; none: it ended before it told one.
fn start(
    mut command: Command,
    program: Option<File>,
    digits: &str,
    limit: Duration,
) -> Result<Option<Helper>, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let wrong = |error: io::Error| Failure::failed(format!("run {name}: {error}"));
    let (key, digits) = (Key::from_hex("parent", digits)?, digits.to_owned());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(wrong)?;
    let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let told = match (stdin.take(), stdout) {
        (Some(into), Some(from)) => {
            let waiting = || format!("starting the other end, for {} s at most …", limit.as_secs());
            with_timeout(limit, waiting, move || hand_over(into, from, program, &digits))?
        }
        _ => None,
    };
    if let Some((into, address)) = told.flatten() {
        let credentials = Credentials::Key(key);
        return Ok(Some(Helper { child, stdin: Some(into), address, credentials }));
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

/// Sends the program, if it has to come along, and the key; hears the address.
fn hand_over(
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
    BufReader::new(from.take(LONGEST_LINE)).read_line(&mut line).ok()?;
    Some((into, line.trim().parse().ok()?))
}

/// A key for servers that end with us.
pub(super) fn one_time_key() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(32) => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        _ => Err(Failure::failed(
            "make a key: the system gives no random numbers — see getrandom(2)",
        )),
    }
}

/// What ssh ends with when it is ssh that failed.
const SSH_FAILED: i32 = 255;
const HERE: Duration = Duration::from_secs(20);
const THERE: Duration = Duration::from_secs(40);
const LONGEST_LINE: u64 = 256;
