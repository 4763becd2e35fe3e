//! Finds nccl-tests, and its features.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use report::nccl::Operation;

use crate::output::Failure;
use crate::timeout::with_timeout;

/// The path of the program for an operation.
pub(super) fn find(operation: Operation) -> Result<PathBuf, Failure> {
    let name = operation.program();
    let home = std::env::var_os("NCCL_TESTS_HOME").map(PathBuf::from);
    let home = home.into_iter().flat_map(|home| [home.join("build"), home.join("bin"), home]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let usual = USUAL_DIRECTORIES.iter().map(PathBuf::from);
    let folders = home.chain(path).chain(usual);
    folders.map(|folder| folder.join(&name)).find(|file| is_program(file)).ok_or_else(|| {
        Failure::failed(format!(
            "bench nccl: {name} not found in PATH, NCCL_TESTS_HOME or {}: build NVIDIA's nccl-tests (`make MPI=1` for \
             several hosts), or pass --program FILE; or use `wirelane bench torch`, which needs only PyTorch",
            USUAL_DIRECTORIES.join(", ")
        ))
    })
}

/// Whether it supports `-J`.
pub(super) fn writes_json(program: &Path) -> bool {
    let mut help = Command::new(program);
    help.arg("--help").stdin(Stdio::null()).stderr(Stdio::null());
    let waiting = || format!("running {} --help", program.display());
    let Ok(Some(Ok(output))) = with_timeout(HELP_TIMEOUT, waiting, move || help.output()) else {
        return false;
    };
    String::from_utf8_lossy(&output.stdout).contains("--output_file")
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// Where builds and images install it.
const USUAL_DIRECTORIES: [&str; 6] = [
    "/usr/local/bin",
    "/usr/local/nccl-tests/build",
    "/usr/local/libexec/nccl-tests",
    "/opt/nccl-tests/build",
    "/opt/nccl_tests/build",
    "/usr/lib/nccl-tests",
];
const HELP_TIMEOUT: Duration = Duration::from_secs(10);
