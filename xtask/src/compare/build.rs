//! A build of our programs to measure: of this tree, or of an earlier commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, shell};

/// The cargo profile for comparisons: optimised across crates, like published builds.
pub(super) const PROFILE: &str = "compare";

/// The folder with the programs of one build.
#[derive(Clone)]
pub(super) struct Build(PathBuf);

impl Build {
    /// The build of this tree for comparisons with other programs.
    pub(super) fn ours() -> Build {
        Build(shell::target().join(PROFILE))
    }

    /// `wirelane`, `xtask`, or an example.
    pub(super) fn program(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// Builds `wirelane` and `perf` of this tree with a profile.
    pub(super) fn of_this_tree(profile: &str) -> Result<Build, Failure> {
        build(shell::repository(), &shell::target(), profile)
    }

    /// Builds them of a commit, in a separate work tree, which is kept for the next time.
    pub(super) fn of_commit(commit: &str, profile: &str) -> Result<Build, Failure> {
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            shell::output(git.args(arguments).current_dir(shell::repository()))
        };
        let hash = git(&["rev-parse", "--verify", &format!("{commit}^{{commit}}")])?;
        let tree = shell::target().join("xtask/before").join(hash.trim());
        if !tree.exists() {
            // If the folder was removed, git still lists it.
            git(&["worktree", "prune"])?;
            git(&["worktree", "add", "--detach", &tree.to_string_lossy(), hash.trim()])?;
        }
        build(&tree, &tree.join("target"), profile)
    }
}

fn build(tree: &Path, target: &Path, profile: &str) -> Result<Build, Failure> {
    eprintln!("building {} with the profile {profile}", tree.display());
    // By folder: packages had other names in earlier commits.
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
    // Cargo's built-in profiles share folders.
    let folder = match profile {
        "dev" | "test" => "debug",
        "bench" => "release",
        other => other,
    };
    Ok(Build(target.join(folder)))
}
