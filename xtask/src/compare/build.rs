//! A build of our programs that is measured: of this tree, or of an earlier commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, shell};

/// Cargo's profile of what is measured: optimised across crates, like what is handed out.
pub(super) const PROFILE: &str = "compare";

/// The folder with the programs of one build.
#[derive(Clone)]
pub(super) struct Build(PathBuf);

impl Build {
    /// Of this tree, as comparisons with other programs measure it.
    pub(super) fn ours() -> Build {
        Build(shell::target().join(PROFILE))
    }

    /// `wirelane`, `xtask`, or an example.
    pub(super) fn program(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// Builds `wirelane` and `perf` of this tree with another profile, if need be.
    pub(super) fn of_this_tree(profile: &str) -> Result<Build, Failure> {
        build(shell::repository(), &shell::target(), profile)
    }

    /// Builds them of a commit, in a work tree of its own, which stays for the next time.
    pub(super) fn of_commit(commit: &str, profile: &str) -> Result<Build, Failure> {
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            shell::output(git.args(arguments).current_dir(shell::repository()))
        };
        let whole = git(&["rev-parse", "--verify", &format!("{commit}^{{commit}}")])?;
        let tree = shell::target().join("xtask/before").join(whole.trim());
        if !tree.exists() {
            // Where somebody has removed the folder, git still knows of it.
            git(&["worktree", "prune"])?;
            git(&["worktree", "add", "--detach", &tree.to_string_lossy(), whole.trim()])?;
        }
        build(&tree, &tree.join("target"), profile)
    }
}

fn build(tree: &Path, target: &Path, profile: &str) -> Result<Build, Failure> {
    eprintln!("building {} with the profile {profile}", tree.display());
    // By folders: packages were called otherwise before.
    for [folder, kind, name] in [["wirelane", "--bin", "wirelane"], ["fabric", "--example", "perf"]]
    {
        let manifest = format!("crates/{folder}/Cargo.toml");
        let mut cargo = shell::cargo(&["build", "--quiet", "--locked", "--profile", profile]);
        cargo
            .args(["--manifest-path", &manifest, kind, name])
            .current_dir(tree)
            .env("CARGO_TARGET_DIR", target);
        shell::run(&mut cargo)?;
    }
    // Cargo's own profiles share folders.
    let folder = match profile {
        "dev" | "test" => "debug",
        "bench" => "release",
        other => other,
    };
    Ok(Build(target.join(folder)))
}
