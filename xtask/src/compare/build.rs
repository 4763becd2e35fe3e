//! A build of our programs to measure: of this tree, or of an earlier commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::pack::Pack;
use crate::{Failure, shell};

/// The cargo profile for comparisons: optimised across crates, like published builds.
pub(super) const PROFILE: &str = "compare";

/// The folder with the programs of one build.
#[derive(Clone)]
pub(super) struct Build(PathBuf);

impl Build {
    /// The build of this tree for comparisons with other programs.
    pub(super) fn ours() -> Build {
        Build(match Pack::current() {
            Some(pack) => pack.programs(),
            None => shell::target().join(PROFILE),
        })
    }

    /// `wirelane`, `xtask`, or an example.
    pub(super) fn program(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// Builds `wirelane` and `perf` of this tree with a profile.
    pub(super) fn of_this_tree(profile: &str) -> Result<Build, Failure> {
        if Pack::current().is_some() {
            return Ok(Build::ours());
        }
        build(shell::repository(), &shell::target(), profile)
    }

    /// Builds an example of the fabric in this tree.
    pub(super) fn example(name: &str) -> Result<PathBuf, Failure> {
        let program = ["fabric", "--example", name];
        build_program(program, shell::repository(), &shell::target(), PROFILE)?;
        Ok(shell::target().join(PROFILE).join("examples").join(name))
    }

    /// Builds the unit tests of a crate in this tree; returns their program.
    pub(super) fn unit_tests(folder: &str) -> Result<PathBuf, Failure> {
        let manifest = format!("crates/{folder}/Cargo.toml");
        let mut cargo = shell::cargo(&["test", "--quiet", "--locked", "--profile", PROFILE]);
        cargo.args(["--manifest-path", &manifest, "--lib", "--no-run", "--message-format=json"]);
        let messages = shell::output(cargo.current_dir(shell::repository()))?;
        let mut programs = messages.lines().filter_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            message["executable"].as_str().map(PathBuf::from)
        });
        programs.next_back().ok_or_else(|| format!("cargo built no tests of {folder}"))
    }

    /// Builds them of a commit, in a separate work tree, which is kept for the next time.
    pub(super) fn of_commit(commit: &str, profile: &str) -> Result<Build, Failure> {
        if let Some(pack) = Pack::current() {
            return pack.before(commit).map(Build);
        }
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

/// A program by the folder of its crate, its kind, and its name.
fn build_program(
    [folder, kind, name]: [&str; 3],
    tree: &Path,
    target: &Path,
    profile: &str,
) -> Result<(), Failure> {
    let manifest = format!("crates/{folder}/Cargo.toml");
    let mut cargo = shell::cargo(&["build", "--quiet", "--locked", "--profile", profile]);
    cargo.args(["--manifest-path", &manifest, kind, name]);
    shell::run(cargo.current_dir(tree).env("CARGO_TARGET_DIR", target))
}

fn build(tree: &Path, target: &Path, profile: &str) -> Result<Build, Failure> {
    eprintln!("building {} with the profile {profile}", tree.display());
    // By folder: packages had other names in earlier commits.
    for program in [["wirelane", "--bin", "wirelane"], ["fabric", "--example", "perf"]] {
        build_program(program, tree, target, profile)?;
    }
    // Cargo's built-in profiles share folders.
    let folder = match profile {
        "dev" | "test" => "debug",
        "bench" => "release",
        other => other,
    };
    Ok(Build(target.join(folder)))
}
