//! `cargo xtask compare pack FILE`: our programs and those they are compared with, in one archive, for a machine where
//! nothing can be installed or built.
//!
//! Its programs need only the C library of that machine; their other libraries are in the archive. [`Pack`] is the
//! unpacked archive, found by the variable that its script `compare` sets.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use super::build::{Build, PROFILE};
use crate::{Failure, packages, shell};

#[derive(Args)]
pub(super) struct PackArgs {
    /// The archive to write; its name ends in .tar.gz
    file: PathBuf,
    /// Also pack our programs of this commit, for `compare before` there
    #[arg(long, value_name = "COMMIT")]
    before: Option<String>,
    /// Install missing packages without asking
    #[arg(long)]
    yes: bool,
}

/// An unpacked archive.
pub(super) struct Pack(PathBuf);

impl Pack {
    /// The one that this program was started from.
    pub(super) fn current() -> Option<Pack> {
        std::env::var_os(VARIABLE).map(|folder| Pack(folder.into()))
    }

    pub(super) fn programs(&self) -> PathBuf {
        self.0.join("programs")
    }

    /// Our programs of an earlier commit, if it is this one.
    pub(super) fn before(&self, commit: &str) -> Result<PathBuf, Failure> {
        let packed = fs::read_to_string(self.0.join("before/commit"))
            .map_err(|_| "this archive has no earlier commit: pack it with `--before COMMIT`")?;
        match packed.trim() {
            packed if packed == commit => Ok(self.0.join("before")),
            packed => Err(format!("this archive has the commit {packed}, not {commit}")),
        }
    }

    /// A folder for data of the programs.
    pub(super) fn data(&self) -> PathBuf {
        self.0.join("data")
    }
}

pub(super) fn run(args: &PackArgs) -> Result<(), Failure> {
    packages::ensure(&[packages::COMPARE, packages::COMPARE_KV], args.yes)?;
    // Before everything is built.
    if let Some(folder) = args.file.parent() {
        fs::create_dir_all(folder).map_err(|error| failed("create", folder, &error))?;
    }
    let ours = Build::of_this_tree(PROFILE)?;
    shell::run(&mut shell::cargo(&[
        "build",
        "--quiet",
        "--profile",
        PROFILE,
        "--package",
        "xtask",
    ]))?;
    let folder = shell::target().join("xtask/pack");
    let _ = fs::remove_dir_all(&folder);
    let tree = Tree { root: folder.join(NAME) };
    tree.script("compare", COMPARE)?;
    tree.add_programs(&ours, "programs")?;
    tree.copy(ours.program("xtask").as_ref(), "programs/xtask")?;
    if let Some(commit) = &args.before {
        tree.add_programs(&Build::of_commit(commit, PROFILE)?, "before")?;
        tree.write("before/commit", commit)?;
    }
    for program in PEERS {
        tree.add_wrapped(&find(program)?, &format!("peers/{program}"), "")?;
    }
    tree.add_ucx_transports()?;
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--gzip").arg("--file").arg(&args.file);
    shell::output(tar.arg("--directory").arg(&folder).arg(NAME))?;
    let size = fs::metadata(&args.file).map_err(|error| failed("read", &args.file, &error))?.len();
    println!("{}  {:.1} MB", args.file.display(), size as f64 / 1e6);
    println!("unpack it there, and run {NAME}/compare kv, fabric, before or page");
    Ok(())
}

/// What will be in the archive.
struct Tree {
    root: PathBuf,
}

impl Tree {
    /// `wirelane`, and `perf`, which loads libfabric at run time.
    fn add_programs(&self, build: &Build, folder: &str) -> Result<(), Failure> {
        self.copy(build.program("wirelane").as_ref(), &format!("{folder}/wirelane"))?;
        let perf = build.program("examples/perf");
        self.add_wrapped(perf.as_ref(), &format!("{folder}/examples/perf"), "../")
    }

    /// A program as a script that sets the path of its libraries, and these libraries. `up` is the path from the script's
    /// folder to one below the root.
    fn add_wrapped(&self, program: &Path, to: &str, up: &str) -> Result<(), Failure> {
        let real = format!("{to}.real");
        self.copy(program, &real)?;
        self.add_libraries(program)?;
        // Not the program's own name: Debian's redis-server is a link to a program that does something else by its name.
        let name = to.rsplit('/').next().unwrap_or(to);
        self.script(to, &WRAPPER.replace("UP", up).replace("NAME", name))
    }

    /// All but the C library's.
    fn add_libraries(&self, program: &Path) -> Result<(), Failure> {
        for library in libraries(&shell::output(Command::new("ldd").arg(program))?) {
            let name = library.file_name().unwrap_or_default().to_string_lossy();
            self.copy(&library, &format!("lib/{name}"))?;
        }
        Ok(())
    }

    /// UCX loads each transport from a file of its own.
    fn add_ucx_transports(&self) -> Result<(), Failure> {
        let ucx = find("ucx_perftest")?;
        let linked = libraries(&shell::output(Command::new("ldd").arg(ucx))?);
        let uct = linked.iter().find(|library| library.to_string_lossy().contains("libuct.so"));
        let folder = uct.and_then(|uct| uct.parent()).ok_or("ucx_perftest has no libuct.so")?;
        let modules = folder.join("ucx");
        let entries = fs::read_dir(&modules).map_err(|error| failed("read", &modules, &error))?;
        for module in entries.flatten().map(|entry| entry.path()) {
            let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.copy(&module, &format!("lib/ucx/{name}"))?;
        }
        Ok(())
    }

    fn copy(&self, from: &Path, to: &str) -> Result<(), Failure> {
        let to = self.path(to)?;
        fs::copy(from, to).map(drop).map_err(|error| failed("copy", from, &error))
    }

    fn script(&self, to: &str, text: &str) -> Result<(), Failure> {
        self.write(to, text)?;
        let path = self.root.join(to);
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, executable).map_err(|error| failed("write", &path, &error))
    }

    fn write(&self, to: &str, text: &str) -> Result<(), Failure> {
        let path = self.path(to)?;
        fs::write(&path, text).map_err(|error| failed("write", &path, &error))
    }

    /// Creates its folder.
    fn path(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.root.join(name);
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(|error| failed("create", folder, &error))?;
        Ok(path)
    }
}

/// The paths in the output of ldd, without those of the C library.
fn libraries(output: &str) -> BTreeSet<PathBuf> {
    let path = |line: &str| {
        let (name, path) = line.trim().split_once(" => ")?;
        let is_libc = LIBC.iter().any(|part| name.starts_with(part));
        (!is_libc).then(|| path.split(' ').next().map(PathBuf::from)).flatten()
    };
    output.lines().filter_map(path).collect()
}

/// The path of an installed program.
fn find(program: &str) -> Result<PathBuf, Failure> {
    let script = format!("readlink -f \"$(command -v {program})\"");
    let mut sh = Command::new("sh");
    sh.args(["-c", &script]).env("PATH", packages::path_with_sbin());
    Ok(shell::output(&mut sh)?.trim().into())
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    format!("{what} {}: {error}", path.display())
}

const VARIABLE: &str = "WIRELANE_COMPARE_PACK";
const NAME: &str = "wirelane-compare";

/// Programs that ours are compared with; taskset, setpriv and timeout are those of the machine.
const PEERS: [&str; 7] = [
    "redis-server",
    "redis-benchmark",
    "redis-cli",
    "memcached",
    "ucx_perftest",
    "iperf3",
    "fi_pingpong",
];

/// Parts of the C library, which fit only the dynamic loader of their own version.
const LIBC: [&str; 7] =
    ["libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libresolv.so", "ld-linux"];

const COMPARE: &str = r#"#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd) || exit 3
WIRELANE_COMPARE_PACK=$here PATH=$here/peers:$PATH exec "$here/programs/xtask" compare "$@"
"#;

const WRAPPER: &str = r#"#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd) || exit 3
lib=$here/../UPlib
LD_LIBRARY_PATH=$lib UCX_MODULE_DIR=$lib/ucx exec "$here/NAME.real" "$@"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_the_c_library_are_left_out() {
        let output = "\tlinux-vdso.so.1 (0x00007ffc)\n\
                      \tlibevent-2.1.so.7 => /lib/x86_64-linux-gnu/libevent-2.1.so.7 (0x00007f2)\n\
                      \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f3)\n";
        let found = libraries(output);
        assert_eq!(
            found.iter().collect::<Vec<_>>(),
            [Path::new("/lib/x86_64-linux-gnu/libevent-2.1.so.7")]
        );
    }
}
