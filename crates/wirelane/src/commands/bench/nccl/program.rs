//! Where nccl-tests is, and what it can do.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use report::nccl::Operation;

use crate::output::Failure;
use crate::timeout::with_timeout;

/// The program of an operation.
pub(super) fn find(operation: Operation) -> Result<PathBuf, Failure> {
    let name = operation.program();
    let home = std::env::var_os("NCCL_TESTS_HOME").map(PathBuf::from);
    let home = home.into_iter().flat_map(|home| [home.join("build"), home.join("bin"), home]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let usual = USUAL.iter().map(PathBuf::from);
    let folders = home.chain(path).chain(usual);
    folders.map(|folder| folder.join(&name)).find(|file| is_program(file)).ok_or_else(|| {
        Failure::failed(format!(
            "bench nccl: {name} is not found, neither in PATH nor in NCCL_TESTS_HOME nor in {}: build NVIDIA's nccl-tests \
             (`make MPI=1` for several hosts), or name it with --program; `wirelane bench torch` needs PyTorch alone",
            USUAL.join(", ")
        ))
    })
}

/// Whether it knows `-J`.
pub(super) fn writes_json(program: &Path) -> bool {
    let mut help = Command::new(program);
    help.arg("--help").stdin(Stdio::null()).stderr(Stdio::null());
    let waiting = || format!("asking {} what it can do", program.display());
    let Ok(Some(Ok(told))) = with_timeout(PATIENCE, waiting, move || help.output()) else {
        return false;
    };
    String::from_utf8_lossy(&told.stdout).contains("--output_file")
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// Where builds and images put it.
const USUAL: [&str; 6] = [
    "/usr/local/bin",
    "/usr/local/nccl-tests/build",
    "/usr/local/libexec/nccl-tests",
    "/opt/nccl-tests/build",
    "/opt/nccl_tests/build",
    "/usr/lib/nccl-tests",
];
const PATIENCE: Duration = Duration::from_secs(10);
