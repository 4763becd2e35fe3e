//! Real jobs on two hosts: Open MPI 4 and 5 and PyTorch, started by `wirelane launch`, also inside a real Slurm.
//! The hosts are network namespaces of this machine, each with a real sshd, so root is needed. Open MPI 4 and PyTorch
//! are Debian's; Open MPI 5 is PyPI's, in the environment that WIRELANE_TEST_OPENMPI5 names; TensorFlow, with the
//! feature
//! `tensorflow`, in WIRELANE_TEST_TENSORFLOW's. `cargo xtask test` brings them.
#![allow(missing_docs, reason = "a test")]

#[path = "jobs/slurm.rs"]
mod slurm;
#[path = "program/ssh.rs"]
mod ssh;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use slurm::Cluster;
use ssh::Hosts;

/// Two hosts, and a folder for the test's files.
struct Stage {
    hosts: Hosts,
    folder: tempfile::TempDir,
    /// Prepended to the search path.
    bin: Option<PathBuf>,
}

impl Stage {
    fn new(bin: Option<PathBuf>) -> Stage {
        let hosts = Hosts::apart(&["a", "b"]).expect("root, to make hosts");
        ["a", "b"].iter().for_each(|host| hosts.give_wirelane(host));
        Stage { hosts, folder: tempfile::tempdir().expect("a folder"), bin }
    }

    fn path(&self) -> String {
        match &self.bin {
            Some(bin) => format!("{}:{}", bin.display(), self.hosts.path()),
            None => self.hosts.path(),
        }
    }

    /// A program on the machine that reaches the hosts.
    fn locally(&self, program: &str) -> Command {
        let mut command = self.hosts.command(program);
        command.env("PATH", self.path()).current_dir(self.folder.path());
        command.env("XDG_STATE_HOME", self.folder.path());
        command
    }

    fn launch(&self, arguments: &[&str]) -> Said {
        let mut command = self.locally(env!("CARGO_BIN_EXE_wirelane"));
        Said::of(command.arg("launch").args(arguments))
    }

    /// Compiles the ring with this Open MPI's own compiler.
    fn compile_ring(&self) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jobs/ring.c");
        let mut mpicc = self.locally("mpicc");
        Said::of(mpicc.args(["-Wall", "-Werror", "-o", "ring"]).arg(source)).ends_with(0);
    }

    /// Asserts that nothing of the job is left on this machine, which is all hosts.
    fn is_clean(&self) {
        let ring = self.folder.path().join("ring");
        let mut left = Vec::new();
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let program = std::fs::read_link(entry.path().join("exe")).unwrap_or_default();
            if program == ring {
                left.push(entry.path());
            }
        }
        assert!(left.is_empty(), "still running: {left:?}");
    }
}

/// The exit code and output of a program.
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Said {
    fn of(command: &mut Command) -> Said {
        let Output { status, stdout, stderr } = command.output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Said { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    #[track_caller]
    fn ends_with(self, code: i32) -> Said {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// What was printed, in the order of the lines.
    fn lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.stdout.lines().collect();
        lines.sort_unstable();
        lines
    }
}

/// Where PyPI's Open MPI 5 is.
fn five() -> PathBuf {
    environment("WIRELANE_TEST_OPENMPI5").join("bin")
}

fn environment(variable: &str) -> PathBuf {
    let named = std::env::var_os(variable);
    named
        .unwrap_or_else(|| panic!("{variable} names no environment; use `cargo xtask test`"))
        .into()
}

const RING: [&str; 4] = [
    "a| rank 0 of 4 on a, job known",
    "a| rank 1 of 4 on a, job known",
    "b| rank 2 of 4 on b, job known",
    "b| rank 3 of 4 on b, job known",
];

fn ring_runs(bin: Option<PathBuf>, version: &str) {
    let stage = Stage::new(bin);
    stage.compile_ring();
    let said = stage.launch(&["mpi", "--hosts", "a:2,b:2", "--", "./ring"]).ends_with(0);
    assert_eq!(said.lines(), RING, "{}", said.stderr);
    assert!(said.stderr.contains(version), "{}", said.stderr);
    assert!(said.stderr.contains("RDMA was not used"), "{}", said.stderr);
    stage.is_clean();
}

#[test]
fn open_mpi_4_runs_a_program_on_two_hosts() {
    ring_runs(None, "Open MPI 4.");
}

#[test]
fn open_mpi_5_runs_a_program_on_two_hosts() {
    ring_runs(Some(five()), "Open MPI 5.");
}

/// An allocation of both hosts, with this program in it.
fn in_an_allocation(cluster: &Cluster, words: &[&str]) -> Said {
    let own = Path::new(env!("CARGO_BIN_EXE_wirelane"));
    let path = format!("{}:{}", own.parent().expect("a folder").display(), ssh::PATH);
    let mut salloc = cluster.command("salloc");
    salloc.args(["-Q", "-N2", "-n2"]).args(words).env("PATH", path);
    salloc.env("XDG_STATE_HOME", cluster.file("state"));
    Said::of(&mut salloc)
}

#[test]
fn hosts_of_an_allocation_are_reached_by_srun() {
    let cluster = Cluster::start();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jobs/ring.c");
    Said::of(cluster.command("mpicc").args(["-o", "ring"]).arg(source)).ends_with(0);
    let said = in_an_allocation(&cluster, &["wirelane", "launch", "mpi", "--", "./ring"]);
    let said = said.ends_with(0);
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let ring = [0, 1].map(|rank| format!("n{}| rank {rank} of 2 on {name}, job known", rank + 1));
    assert_eq!(said.lines(), ring, "{}", said.stderr);
    let check = in_an_allocation(&cluster, &["wirelane", "hosts", "check"]).ends_with(0);
    assert!(check.stdout.contains("2 hosts, no differences"), "{}", check.stdout);

    // Ctrl-C, some time later.
    let sleep = ["--", "sleep", "98761.25"];
    let stopped = ["timeout", "--preserve-status", "-s", "INT", "5", "wirelane", "launch"];
    let stopped = [&stopped[..], &["tensorflow"], &sleep].concat();
    in_an_allocation(&cluster, &stopped).ends_with(130);
    let left = std::fs::read_dir("/proc").expect("/proc").flatten().filter(|entry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.starts_with(b"sleep\x0098761.25")
    });
    assert_eq!(left.count(), 0, "still running");
}

fn rank_fails(bin: Option<PathBuf>) {
    let stage = Stage::new(bin);
    stage.compile_ring();
    let said = stage.launch(&["mpi", "--hosts", "a:2,b:2", "--", "./ring", "--fail", "3"]);
    let said = said.ends_with(7);
    assert!(said.stdout.contains("b| rank 3 of 4"), "{}", said.stdout);
    stage.is_clean();
}

#[test]
fn a_rank_that_fails_under_open_mpi_4_ends_the_job_with_its_code() {
    rank_fails(None);
}

#[test]
fn a_rank_that_fails_under_open_mpi_5_ends_the_job_with_its_code() {
    rank_fails(Some(five()));
}

#[test]
fn rdma_is_refused_before_anything_starts() {
    let stage = Stage::new(None);
    stage.compile_ring();
    let said = stage.launch(&["mpi", "--hosts", "a:2,b:2", "--mode", "rdma", "--", "./ring"]);
    let said = said.ends_with(1);
    assert!(said.stderr.contains("a: no RDMA device can be used"), "{}", said.stderr);
    assert_eq!(said.stdout, "");
}

/// The guide's flags fail as `--explain` describes, and the flags used instead work.
#[test]
fn the_flags_of_common_guides_fail_as_explained() {
    for (bin, version) in [(None, "Open MPI 4, as here"), (Some(five()), "Open MPI 5, as here")] {
        let stage = Stage::new(bin);
        stage.compile_ring();
        let explained = stage.launch(&["mpi", "--explain"]).ends_with(0).stdout;
        assert!(explained.contains("--mca btl ^openib,self,vader\n    wrong: "), "{explained}");
        assert!(explained.contains(version), "{explained}");
        let mut guide = stage.locally("mpirun");
        guide.args(["--allow-run-as-root", "--mca", "btl", "^openib,self,vader"]);
        let said = Said::of(guide.args(["--host", "localhost:2", "-n", "2", "./ring"]));
        assert_ne!(said.code, Some(0), "{}", said.stdout);
    }
}

#[test]
fn a_dry_run_prints_the_commands_that_run() {
    let stage = Stage::new(None);
    stage.compile_ring();
    let said =
        stage.launch(&["mpi", "--hosts", "a:2,b:2", "--dry-run", "--", "./ring"]).ends_with(0);
    for part in [
        "btl self,vader,tcp",
        "btl_tcp_if_include 10.77.0.0/24",
        "--host a:2",
        "--host b:2",
        "exec ./ring",
    ] {
        assert!(said.stdout.contains(part), "no {part}: {}", said.stdout);
    }
    stage.is_clean();
}

#[test]
fn pytorch_sums_across_two_hosts() {
    let stage = Stage::new(None);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jobs/all_reduce.py");
    std::fs::copy(script, stage.folder.path().join("all_reduce.py")).expect("a copy");
    let said = stage.launch(&["torch", "--hosts", "a:2,b:1", "--", "all_reduce.py"]).ends_with(0);
    let known = [
        "a| rank 0 of 3 on a, local 0",
        "a| rank 1 of 3 on a, local 1",
        "b| rank 2 of 3 on b, local 0",
    ];
    assert_eq!(said.lines(), known, "{}", said.stderr);
}

/// TensorFlow's own parser reads each host's TF_CONFIG.
#[cfg(feature = "external-tests")]
#[test]
fn tensorflow_reads_its_part_on_each_host() {
    let stage = Stage::new(Some(environment("WIRELANE_TEST_TENSORFLOW").join("bin")));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jobs/cluster.py");
    std::fs::copy(script, stage.folder.path().join("cluster.py")).expect("a copy");
    let arguments = ["tensorflow", "--hosts", "a,b", "--ps", "1", "--port", "2222", "--"];
    let said = stage.launch(&[&arguments[..], &["python3", "cluster.py"]].concat()).ends_with(0);
    let known = [
        "a| cluster ps=1 worker=1",
        "a| worker 0 on a at 10.77.0.2:2222",
        "b| cluster ps=1 worker=1",
        "b| ps 0 on b at 10.77.0.3:2222",
    ];
    assert_eq!(said.lines(), known, "{}", said.stderr);
}
