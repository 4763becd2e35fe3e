//! Programs that must be over in time, with everything they started.

use std::collections::HashMap;
use std::fs;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{Failure, shell};

/// Runs a command to its end, or ends it, and whatever it has started, when the time is over. It stays in our own process
/// group, so that Ctrl-C reaches it too.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<(), Failure> {
    let started = Instant::now();
    let mut child = command.spawn().map_err(|error| shell::not_started(command, &error))?;
    loop {
        match child.try_wait().map_err(|error| format!("wait for {:?}: {error}", child.id()))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{} ended with {status}", shell::shown(command))),
            None if started.elapsed() < limit => sleep(POLL_INTERVAL),
            None => return Err(end(&mut child, command, limit)),
        }
    }
}

fn end(child: &mut Child, command: &Command, limit: Duration) -> Failure {
    // Before the first is gone: afterwards nobody knows whose the others were.
    let mut ids = descendants(child.id(), &parents());
    ids.push(child.id());
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    let _ = Command::new("kill").arg("-KILL").args(&ids).status();
    let _ = child.wait();
    let minutes = limit.as_secs() / 60;
    format!("{} was not over after {minutes} minutes and was ended", shell::shown(command))
}

/// Every process and who started it.
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

/// After the name, which may hold anything, stand the state and the parent.
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
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent("17 (a) b (c) S 4 17 17 0"), Some(4));
        assert_eq!(parent("17"), None);
    }

    #[test]
    fn what_takes_too_long_is_ended_with_all_it_started() {
        let told = std::env::temp_dir().join(format!("wirelane-within-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'sleep 1000 & echo $! > \"$1\"; wait' sh \"$1\"; :", "sh"]);
        command.arg(&told);
        let refused = run(&mut command, Duration::from_secs(5)).expect_err("it is too long");
        assert!(refused.contains("was not over"), "{refused}");
        let id = fs::read_to_string(&told).expect("it was started");
        fs::remove_file(&told).expect("a file");
        let stat = || fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        let goes_on = |stat: &String| !stat.is_empty() && !stat.contains(") Z ");
        // Who is killed takes a moment to be gone.
        let limit = Instant::now() + Duration::from_secs(30);
        while goes_on(&stat()) {
            assert!(Instant::now() < limit, "it goes on: {}", stat());
            sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn how_it_ended_is_told() {
        assert_eq!(run(&mut Command::new("true"), Duration::from_secs(60)), Ok(()));
        assert!(run(&mut Command::new("false"), Duration::from_secs(60)).is_err());
    }
}
