//! The peer's snapshot: from a file, or by the user's own ssh.
//!
//! Where the peer has no wirelane, this one is sent along: into a folder of its own there, which is removed when the
//! shell that ran it ends, however it ends.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use node::Tree;

use crate::exit::Failure;
use crate::output;

/// What the peer is like.
pub(super) fn fetch(host: &str) -> Result<Tree, Failure> {
    let path = Path::new(host);
    if path.exists() {
        return Tree::at(path).map_err(|error| Failure::failed(format!("--peer {error}")));
    }
    check_name(host)?;
    output::progress(&format!("asking {host} by ssh…"));
    let mut answer = ask(host, "wirelane snapshot -", None)?;
    if answer.code == Some(NOT_FOUND) {
        output::progress(&format!("{host} has no wirelane: sending this one along…"));
        answer = ask(host, SENT_ALONG, Some(own_program()?))?;
    }
    answer.tree(host)
}

/// Not an option of ssh, and nothing that a shell would read.
fn check_name(host: &str) -> Result<(), Failure> {
    let odd = |letter: char| letter.is_whitespace() || letter.is_control();
    if host.is_empty() || host.starts_with('-') || host.contains(odd) {
        return Err(Failure::usage(format!(
            "--peer {host:?} is neither a host's name nor a snapshot's file"
        )));
    }
    Ok(())
}

fn own_program() -> Result<File, Failure> {
    let path = std::env::current_exe().and_then(File::open);
    path.map_err(|error| Failure::failed(format!("read this program to send it along: {error}")))
}

struct Answer {
    code: Option<i32>,
    snapshot: tempfile::NamedTempFile,
    complaint: String,
}

/// Runs a command there. Output goes to files, so that no pipe can fill up and stand still.
fn ask(host: &str, command: &str, input: Option<File>) -> Result<Answer, Failure> {
    let wrong = |error: std::io::Error| Failure::failed(format!("run ssh to {host}: {error}"));
    let snapshot = tempfile::NamedTempFile::new().map_err(wrong)?;
    let mut complaint = tempfile::tempfile().map_err(wrong)?;
    let mut ssh = Command::new("ssh");
    ssh.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--", host, command]);
    ssh.stdin(input.map_or_else(Stdio::null, Stdio::from));
    ssh.stdout(snapshot.reopen().map_err(wrong)?);
    ssh.stderr(complaint.try_clone().map_err(wrong)?);
    let mut child = ssh.spawn().map_err(wrong)?;
    let code = wait(&mut child, host, snapshot.as_file())?;
    let mut text = String::new();
    complaint.rewind().map_err(wrong)?;
    // What is not text says nothing to people either.
    let _ = complaint.take(LONGEST_COMPLAINT).read_to_string(&mut text);
    Ok(Answer { code, snapshot, complaint: text })
}

fn wait(child: &mut Child, host: &str, snapshot: &File) -> Result<Option<i32>, Failure> {
    let begun = Instant::now();
    loop {
        let ended =
            child.try_wait().map_err(|error| Failure::failed(format!("wait for ssh: {error}")))?;
        if let Some(status) = ended {
            return Ok(status.code());
        }
        let long = snapshot.metadata().is_ok_and(|metadata| metadata.len() > LONGEST);
        if long || begun.elapsed() > PATIENCE {
            // It may have ended by itself meanwhile.
            let _ = child.kill();
            let _ = child.wait();
            let why = if long {
                "sends more than a snapshot has"
            } else {
                "does not answer within a minute"
            };
            return Err(Failure::failed(format!("{host} {why}; ssh was ended")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Answer {
    fn tree(self, host: &str) -> Result<Tree, Failure> {
        let said = ops::doctor::one_line(self.complaint.lines().last().unwrap_or_default());
        match self.code {
            Some(0) => Tree::at(self.snapshot.path()).map_err(|error| {
                Failure::failed(format!("what {host} sent is no snapshot: {error}"))
            }),
            Some(255) => {
                Err(Failure::failed(format!("ssh to {host}: {said}; try `ssh {host} true`")))
            }
            Some(126) => Err(Failure::failed(format!(
                "this program does not run on {host} ({said}): is it another architecture? \
                 Install wirelane there, or take a snapshot there and give its file to --peer"
            ))),
            code => {
                let code = code.map_or("a signal".to_owned(), |code| format!("code {code}"));
                Err(Failure::failed(format!(
                    "`wirelane snapshot -` on {host} ended with {code}: {said}"
                )))
            }
        }
    }
}

/// The shell's word for: no such program.
const NOT_FOUND: i32 = 127;

/// Takes the program from its input.
const SENT_ALONG: &str = "dir=$(mktemp -d) || exit 3; trap 'rm -rf \"$dir\"' EXIT; trap 'exit 3' \
                          HUP INT TERM; cat > \"$dir/wirelane\" && chmod 700 \"$dir/wirelane\" && \
                          \"$dir/wirelane\" snapshot -";

const PATIENCE: Duration = Duration::from_secs(60);
/// As long as a snapshot may be.
const LONGEST: u64 = 64 << 20;
const LONGEST_COMPLAINT: u64 = 64 << 10;
