//! Which machine a command looks at: this one, or a tree or snapshot of another.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use node::Tree;

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
    /// The machine to look at.
    pub(crate) fn tree(&self) -> Result<Tree, Failure> {
        if self.root == Path::new("/") {
            return Ok(Tree::live(self.host_sys.as_deref()).with_environment(environment()));
        }
        let tree =
            Tree::at(&self.root).map_err(|error| Failure::failed(format!("--root {error}")))?;
        if !tree.exists("/sys") && !tree.exists("/proc") {
            return Err(Failure::failed(format!(
                "--root {}: nothing of a machine is there, neither /sys nor /proc; name the root \
                 of a machine, or a snapshot of one",
                self.root.display()
            )));
        }
        Ok(tree)
    }
}

/// This process's variables. Names and values that are not text tell nothing of the fabric.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text)
}
