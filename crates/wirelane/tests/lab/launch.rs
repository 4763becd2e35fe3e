//! A real MPI program on real verbs, started by `wirelane launch`, which reports what transferred its data.

use std::path::Path;
use std::process::{Command, Output};

use crate::{run, text};

/// The folder with the compiled program.
fn compiled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/exchange.c");
    let program = folder.path().join("exchange");
    let words = [source.as_path(), Path::new("-o"), program.as_path()];
    let words = words.map(|word| word.to_str().expect("a plain path"));
    let output = run("mpicc", &words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    folder
}

fn launch(folder: &Path, mode: &str) -> Output {
    let mut launch = Command::new(env!("CARGO_BIN_EXE_wirelane"));
    launch.args(["launch", "mpi", "--hosts", "localhost:2", "--mode", mode, "--", "./exchange"]);
    launch.env("XDG_STATE_HOME", folder).current_dir(folder);
    launch.output().expect("the program runs")
}

#[test]
fn packets_prove_an_mpi_program_over_verbs_and_not_over_tcp() {
    let folder = compiled();
    for (mode, line_start) in [
        ("rdma", "RDMA transferred "),
        ("tcp", "RDMA was not used, because mode tcp was requested"),
    ] {
        let output = launch(folder.path(), mode);
        let (printed, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{mode}: {printed}{said}");
        let mut lines: Vec<&str> = printed.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["localhost| rank 0 has all", "localhost| rank 1 has all"], "{said}");
        assert!(said.lines().any(|line| line.starts_with(line_start)), "{mode}: {said}");
        if mode == "rdma" {
            let line = said.lines().find(|line| line.starts_with(line_start)).expect("the line");
            let words: Vec<&str> = line.split([' ', ';']).collect();
            let packets: u64 = words[2].parse().expect("a number");
            // 100 times 64 KiB in each direction, in packets of at most 4096 bytes.
            assert!(packets >= 3200 && words[3] == "packets", "{line}");
        }
    }
}
