//! The machine that a command reads: this one, or a directory tree or snapshot of another.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use node::{Reading, Tree};

use crate::output::Failure;

/// Where facts are read.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostArgs {
    /// Read this directory tree or snapshot file instead of the running machine
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(crate) root: PathBuf,

    /// In a pod: where the host's /sys is mounted
    #[arg(long, value_name = "DIR", conflicts_with = "root")]
    pub(crate) host_sys: Option<PathBuf>,
}

impl HostArgs {
    /// Whether facts are read on the running machine.
    pub(crate) fn is_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The machine to read.
    pub(crate) fn tree(&self) -> Result<Tree, Failure> {
        if self.is_this_machine() {
            return Ok(Tree::live(self.host_sys.as_deref()).with_environment(environment()));
        }
        let tree =
            Tree::at(&self.root).map_err(|error| Failure::failed(format!("--root {error}")))?;
        if !tree.exists("/sys") && !tree.exists("/proc") {
            return Err(Failure::failed(format!(
                "--root {}: no /sys and no /proc below it; pass the root directory of a machine, or a snapshot",
                self.root.display()
            )));
        }
        Ok(tree)
    }
}

/// Fails if the RDMA devices cannot be read, for commands that would take this for a machine without any.
pub(crate) fn check_devices(tree: &Tree) -> Result<(), Failure> {
    let names = tree.names(DEVICES);
    match (&names, names.why_not()) {
        (Reading::Refused(_), Some(why)) => Err(Failure::failed(format!("{DEVICES} {why}"))),
        _ => Ok(()),
    }
}

const DEVICES: &str = "/sys/class/infiniband";

/// The environment variables of this process, without those that are not UTF-8.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text)
}
