//! `cargo xtask lab`: a virtual machine with soft-RoCE devices, from Debian's packages.
//!
//! The machine's kernel comes from a package that is unpacked, not installed; its files are the
//! host's, read-only, under an overlay in its memory. `lab/` in the repository holds what runs
//! inside. Nothing is mounted on the host, and the machine is killed with this process.

mod initramfs;
mod kernel;
mod machine;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::{Failure, packages, shell};
use initramfs::Initramfs;
use kernel::Kernel;
use machine::{Ending, Machine};

#[derive(Args, Clone)]
#[command(after_help = "\
The command runs as root, in this folder, with this machine's files; what it writes is discarded afterwards.
`wirelane` there is the freshly built program, `wire` cuts, delays and drops packets.

Examples:
  cargo xtask lab -- ibv_devinfo
  cargo xtask lab -- sh -c 'wire loss 0 5% && wirelane devices'
  cargo xtask lab shell

Exit codes: the command's own; 124 when the time limit ended it; 125 when the machine did not
start or went down before the command ended (as after `echo b >/proc/sysrq-trigger`).")]
pub(crate) struct LabArgs {
    /// CPUs of the machine
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// Its memory in MiB
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(512..))]
    memory: u32,
    /// Wires, each with a soft-RoCE device at both ends
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=16))]
    rails: u32,
    /// Add a disk, /dev/vda, of 1 GiB; a FILE is created if missing and kept for the next run
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    disk: Option<Option<PathBuf>>,
    /// Seconds after which a hung command is stopped (a shell has none)
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    timeout: u64,
    /// Build wirelane with optimisations, for measuring
    #[arg(long)]
    release: bool,
    /// Use the last build of wirelane
    #[arg(long, hide = true, conflicts_with = "release")]
    built: bool,
    /// Download the kernel again
    #[arg(long)]
    refresh: bool,
    /// Install missing packages without asking
    #[arg(long)]
    yes: bool,
    /// `shell` for a prompt, or after `--` the command
    #[arg(value_name = "COMMAND", required = true, num_args = 1.., allow_hyphen_values = true,
          trailing_var_arg = true)]
    command: Vec<String>,
}

pub(crate) fn run(args: &LabArgs) -> Result<ExitCode, Failure> {
    let shell = args.command == ["shell"];
    packages::ensure(&[packages::LAB], args.yes)?;
    // After a build of everything, another build with other features is not needed.
    if !args.built {
        build(args.release)?;
    }
    let kernel = Kernel::ensure(args.refresh)?;
    let machine = Machine {
        cpus: args.cpus,
        memory: args.memory,
        disk: args.disk.clone(),
        limit: (!shell).then(|| Duration::from_secs(args.timeout)),
        console: shell,
        initramfs: Initramfs {
            kernel: &kernel,
            rails: args.rails,
            command: command_script(args, shell)?,
            shell,
        },
    };
    let quiet = !std::io::stderr().is_terminal();
    Ok(match machine.run(quiet)? {
        Ending::Exited(code) => ExitCode::from(code),
        Ending::TimedOut => {
            eprintln!(
                "lab: stopped after {} s; use --timeout SECONDS for a longer limit",
                args.timeout
            );
            ExitCode::from(124)
        }
        Ending::WentDown(why) => {
            eprintln!("lab: {why}");
            ExitCode::from(125)
        }
    })
}

/// Runs a command in a machine with default settings and returns its stdout.
pub(crate) fn output(command: &[String], timeout: u64) -> Result<String, Failure> {
    let mut lab = std::process::Command::new("/proc/self/exe");
    lab.args(["lab", "--timeout", &timeout.to_string(), "--"]).args(command);
    shell::output(&mut lab)
}

/// The downloads of the first run, with their size.
pub(crate) fn to_fetch() -> Result<Option<(String, &'static str)>, Failure> {
    let there = kernel::cache_folder()?.join("kernel").exists();
    Ok((!there).then(|| ("the lab's kernel from Debian".to_owned(), "about 110 MB")))
}

/// Downloads what the first run needs.
pub(crate) fn prepare() -> Result<(), Failure> {
    Kernel::ensure(false).map(drop)
}

fn build(release: bool) -> Result<(), Failure> {
    let mut cargo = shell::cargo(&["build", "--quiet", "--package", "wirelane"]);
    if release {
        cargo.arg("--release");
    }
    shell::run(&mut cargo)
}

/// The script of the machine: runs the command in this folder, with our program first in the PATH.
fn command_script(args: &LabArgs, shell: bool) -> Result<String, Failure> {
    let here = std::env::current_dir().map_err(|error| format!("find this folder: {error}"))?;
    let programs = shell::target().join(if args.release { "release" } else { "debug" });
    let mut script = format!("PATH={}:$PATH\n", shell::quoted(&programs.to_string_lossy()));
    for name in PASSED_VARIABLES {
        if let Ok(value) = std::env::var(name) {
            script.push_str(&format!("export {name}={}\n", shell::quoted(&value)));
        }
    }
    script.push_str(&format!("cd {} || exit 125\n", shell::quoted(&here.to_string_lossy())));
    if shell {
        if let Ok(size) = shell::terminal_size() {
            script.push_str(&format!("stty {size}\n"));
        }
        script.push_str("PS1='lab# '; export PS1\nexec /bin/sh -i\n");
    } else {
        let words: Vec<String> = args.command.iter().map(|word| shell::quoted(word)).collect();
        script.push_str(&format!("exec {}\n", words.join(" ")));
    }
    Ok(script)
}

/// Variables that are passed to the command.
const PASSED_VARIABLES: &[&str] = &[
    "RUST_BACKTRACE",
    "TERM",
    "WIRELANE_LIBIBVERBS",
    "WIRELANE_TEST_MIB",
    "WIRELANE_TEST_SECONDS",
];
