//! Runs programs with a timeout, and kills them with all their descendants.

use std::collections::HashMap;
use std::fs;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{Failure, shell};

/// Runs a command; after the limit, kills it and its descendants. It stays in our process
/// group, so that Ctrl-C reaches it too.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<(), Failure> {
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| shell::not_started(command, &error))?;
    loop {
        match child.try_wait().map_err(|error| format!("wait for {:?}: {error}", child.id()))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                return Err(format!("{} ended with {status}", shell::command_line(command)));
            }
            None if started.elapsed() < limit => sleep(POLL_INTERVAL),
            None => return Err(kill(&mut child, command, limit)),
        }
    }
}

fn kill(child: &mut Child, command: &Command, limit: Duration) -> Failure {
    // Before the child is killed: afterwards its descendants have another parent.
    let mut ids = descendants(child.id(), &parents());
    ids.push(child.id());
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    let _ = Command::new("kill").arg("-KILL").args(&ids).status();
    let _ = child.wait();
    let minutes = limit.as_secs() / 60;
    format!("{} timed out after {minutes} minutes and was killed", shell::command_line(command))
}

/// Every process with its parent.
fn parents() -> HashMap<u32, u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let id = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let ids = entries.flatten().filter_map(id);
    ids.filter_map(|id| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        Some((id, parent(&stat)?))
    })
    .collect()
}

/// The state and the parent follow the name, which may contain anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn descendants(of: u32, parents: &HashMap<u32, u32>) -> Vec<u32> {
    let children = parents.iter().filter(|(_, parent)| **parent == of).map(|(id, _)| *id);
    children.flat_map(|child| [descendants(child, parents), vec![child]].concat()).collect()
}

const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_after_any_name() {
        assert_eq!(parent("17 (a) b (c) S 4 17 17 0"), Some(4));
        assert_eq!(parent("17"), None);
    }

    #[test]
    fn a_timeout_kills_all_descendants() {
        let pid_file = std::env::temp_dir().join(format!("wirelane-within-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'sleep 1000 & echo $! > \"$1\"; wait' sh \"$1\"; :", "sh"]);
        command.arg(&pid_file);
        let refused = run(&mut command, Duration::from_secs(5)).expect_err("it is too long");
        assert!(refused.contains("timed out"), "{refused}");
        let id = fs::read_to_string(&pid_file).expect("it was started");
        fs::remove_file(&pid_file).expect("a file");
        let stat = || fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        let is_running = |stat: &String| !stat.is_empty() && !stat.contains(") Z ");
        // A killed process takes a moment to disappear.
        let limit = Instant::now() + Duration::from_secs(30);
        while is_running(&stat()) {
            assert!(Instant::now() < limit, "it is still running: {}", stat());
            sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn the_exit_status_is_returned() {
        assert_eq!(run(&mut Command::new("true"), Duration::from_secs(60)), Ok(()));
        assert!(run(&mut Command::new("false"), Duration::from_secs(60)).is_err());
    }
}
