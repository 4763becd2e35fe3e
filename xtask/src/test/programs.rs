//! The test programs of the workspace, built once.

use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Failure, shell, timeout};

/// A test program: a crate's unit tests, or one of its folder `tests`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Program {
    package: String,
    /// The file or folder in `tests`; empty for unit tests.
    test: String,
    pub(super) path: PathBuf,
    /// The package's folder, its working directory as with cargo.
    folder: PathBuf,
}

/// The programs that no stage has taken yet.
pub(super) struct Programs(Vec<Program>);

impl Programs {
    /// Builds all of them, examples and the program itself too.
    pub(super) fn build() -> Result<Programs, Failure> {
        // Errors are rendered to stderr, which is in the error message; stdout is parsed.
        let format = "--message-format=json-render-diagnostics";
        let mut build = shell::cargo(&["test", "--no-run", "--quiet", format]);
        let messages = shell::output(build.args(EVERYTHING))?;
        Ok(Programs(messages.lines().filter_map(program).collect()))
    }

    /// Removes and returns a test of a package.
    pub(super) fn take(&mut self, package: &str, test: &str) -> Result<Program, Failure> {
        let chosen = |program: &Program| program.package == package && program.test == test;
        match self.0.iter().position(chosen) {
            Some(at) => Ok(self.0.remove(at)),
            None => Err(format!("there is no test program {test} of {package}")),
        }
    }

    /// The same for several.
    pub(super) fn take_all(&mut self, names: &[(&str, &str)]) -> Result<Vec<Program>, Failure> {
        names.iter().map(|(package, test)| self.take(package, test)).collect()
    }

    /// The remaining programs, the longest first, so that none runs alone at the end.
    pub(super) fn rest(mut self) -> Vec<Program> {
        self.0.sort_by_key(|program| {
            let name = (program.package.as_str(), program.test.as_str());
            LONGEST_FIRST.iter().position(|long| *long == name).unwrap_or(LONGEST_FIRST.len())
        });
        self.0
    }
}

impl fmt::Display for Program {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.test.as_str() {
            "" => write!(to, "{}", self.package),
            test => write!(to, "{} {test}", self.package),
        }
    }
}

impl Program {
    /// As cargo would run it.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder);
        command
    }
}

/// In the order of their duration.
const LONGEST_FIRST: [(&str, &str); 5] = [
    ("wirelane", "program"),
    ("fabric", ""),
    ("fabric", "conformance"),
    ("kv-server", "store"),
    ("kv-server", ""),
];

/// The same in every stage: another set of packages or features would build our crates again.
const EVERYTHING: [&str; 4] = ["--workspace", "--locked", "--features", "external-tests"];

/// The examples in comments; only `cargo test` can run them.
pub(super) fn documentation() -> Command {
    let mut cargo = shell::cargo(&["test", "--doc"]);
    cargo.args(EVERYTHING);
    cargo
}

/// A test program, from one line of cargo's messages.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if message["profile"]["test"] != true {
        return None;
    }
    let manifest = PathBuf::from(text(&message["manifest_path"])?);
    let folder = manifest.parent()?.to_owned();
    let is_test = message["target"]["kind"].as_array()?.iter().any(|kind| kind == "test");
    Some(Program {
        package: folder.file_name()?.to_str()?.to_owned(),
        test: if is_test { text(&message["target"]["name"])? } else { String::new() },
        path: PathBuf::from(text(&message["executable"])?),
        folder,
    })
}

/// Runs all commands, `at_a_time` in parallel, even if one fails. The output of each is contiguous in the log.
pub(super) fn run_all(
    commands: Vec<(String, Command)>,
    at_a_time: usize,
    limit: Duration,
    log: &Mutex<File>,
) -> Result<(), Failure> {
    let waiting = Mutex::new(commands.into_iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some((name, mut command)) = next(&waiting) {
                    if let Err(error) = run_one(&name, &mut command, limit, log) {
                        locked(&failed).push(error);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

fn next(waiting: &Mutex<impl Iterator<Item = (String, Command)>>) -> Option<(String, Command)> {
    locked(waiting).next()
}

fn run_one(
    name: &str,
    command: &mut Command,
    limit: Duration,
    log: &Mutex<File>,
) -> Result<(), Failure> {
    let started = Instant::now();
    let file =
        shell::target().join("xtask").join(format!("{}.part", name.replace([' ', '/'], "-")));
    let failed = |error| format!("{name}: {}: {error}", file.display());
    let stderr = File::create(&file).map_err(failed)?;
    let stdout = stderr.try_clone().map_err(failed)?;
    let result = timeout::run(command.stdin(Stdio::null()).stdout(stdout).stderr(stderr), limit);
    let output = fs::read(&file).map_err(failed)?;
    let _ = fs::remove_file(&file);
    let seconds = started.elapsed().as_secs_f64();
    let mut log = locked(log);
    let mut write = |bytes: &[u8]| std::io::Write::write_all(&mut *log, bytes).map_err(failed);
    write(format!("---- {name}, {seconds:.1} s\n").as_bytes())?;
    write(&output)?;
    result.map_err(|error| {
        eprintln!("---- {name}\n{}", String::from_utf8_lossy(&output));
        format!("{name}: {error}")
    })
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of cargo's messages, with the fields that are read.
    fn line(kind: &str, name: &str, test: bool) -> String {
        serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": "/somewhere/crates/fabric/Cargo.toml",
            "target": { "kind": [kind], "name": name },
            "profile": { "test": test },
            "executable": format!("/somewhere/target/debug/deps/{name}-0123"),
        })
        .to_string()
    }

    #[test]
    fn test_programs_are_distinguished_from_other_programs() {
        let found = program(&line("test", "link", true)).expect("a test program");
        assert_eq!((found.package.as_str(), found.test.as_str()), ("fabric", "link"));
        assert_eq!(found.to_string(), "fabric link");
        let own = program(&line("lib", "fabric", true)).expect("a crate's own tests");
        assert_eq!(own.to_string(), "fabric");
        assert_eq!(program(&line("example", "perf", false)), None);
        assert_eq!(program("warning: no JSON"), None);
    }

    #[test]
    fn a_program_can_be_taken_once() {
        let lines = [line("test", "link", true), line("lib", "fabric", true)];
        let mut programs = Programs(lines.iter().filter_map(|line| program(line)).collect());
        assert!(programs.take("fabric", "link").is_ok());
        assert!(programs.take("fabric", "link").is_err());
        assert_eq!(programs.rest().len(), 1);
    }

    #[test]
    fn all_run_and_each_failure_is_named() {
        let folder = empty_folder();
        let log = Mutex::new(File::create(folder.join("log")).expect("a file"));
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let commands = ["exit 1", "echo second", "exit 3"];
        let commands = commands
            .iter()
            .enumerate()
            .map(|(at, script)| (format!("unit test {} {at}", std::process::id()), shell(script)));
        let minute = Duration::from_secs(60);
        let failed = run_all(commands.collect(), 2, minute, &log).expect_err("two fail");
        assert_eq!(failed.lines().count(), 2, "{failed}");
        let said = fs::read_to_string(folder.join("log")).expect("a log");
        assert!(said.contains("second\n"), "{said}");
        fs::remove_dir_all(folder).expect("our folder");
    }

    fn empty_folder() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("wirelane-run-all-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::create_dir_all(shell::target().join("xtask")).expect("a folder");
        folder
    }
}
