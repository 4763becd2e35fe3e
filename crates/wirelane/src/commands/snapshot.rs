//! `wirelane snapshot`: everything that is read on this machine, in one file, to be analysed elsewhere.

pub(crate) mod date;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use jobs::environment;
use node::sampling::Usage;
use node::{About, Node, Tree};

use crate::arguments::host::HostArgs;
use crate::output;
use crate::output::{Exit, Failure, file};
use crate::settings::Global;

#[derive(Debug, Args)]
#[command(after_help = "\
Every command with --root can read the file. It contains no environment variables but those of the fabric, no serial numbers,
and of the kernel command line only the relevant parameters. It does contain this machine's names and network addresses, and the
names of processes that use RDMA.")]
pub(crate) struct SnapshotArgs {
    /// Output file, which must not exist; `-` is stdout
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,

    /// A note, stored in the snapshot
    #[arg(long, value_name = "TEXT", alias = "about")]
    note: Option<String>,

    #[command(flatten)]
    host: HostArgs,
}

pub(crate) fn run(_global: &Global, args: &SnapshotArgs) -> Result<Exit, Failure> {
    let tree = args.host.tree()?;
    check(&args.file, args.force)?;
    let node = read_all(&tree);
    // A snapshot of a snapshot keeps the time and version of the first.
    let original = tree.about().cloned().unwrap_or_else(|| About {
        taken: Some(date::rfc3339(SystemTime::now())),
        wirelane: Some(env!("CARGO_PKG_VERSION").to_owned()),
        about: None,
    });
    let about = About { about: args.note.clone().or(original.about), ..original };
    let mut document = tree
        .snapshot(&about)
        .map_err(|error| Failure::failed(format!("write the snapshot as JSON: {error}")))?;
    document.push('\n');
    if args.file == Path::new("-") {
        output::json_text(&document)?;
    } else {
        write(&args.file, document.as_bytes(), args.force)?;
    }
    output::note(&summary(&args.file, &node, &tree, document.len()));
    Ok(Exit::Done)
}

/// Reads everything once: the node, and what checks, comparisons and job plans read in addition.
fn read_all(tree: &Tree) -> Node {
    let node = Node::read(tree);
    Usage::read(tree);
    let input = doctor::CheckInput::new(&node, tree);
    doctor::run_checks(&input, &doctor::CHECKS.iter().collect::<Vec<_>>());
    // The properties of `hosts check`.
    jobs::inventory::Table::new(&[(String::new(), Ok(input))]);
    let environment = tree.environment();
    let mode = environment::Mode::Auto;
    let request =
        environment::Request { environment, mode, peers: &[], peers_option: "", nccl: None };
    // Only for the files that it reads.
    let _ = environment::plan(&node, tree, &request);
    node
}

/// Refuses an unsuitable file before everything is read.
fn check(path: &Path, force: bool) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(());
    }
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        let text = format!("write {}: not a regular file; `-` writes to stdout", path.display());
        return Err(Failure::usage(text));
    }
    if !force && std::fs::symlink_metadata(path).is_ok() {
        return Err(write_failed(path, &std::io::ErrorKind::AlreadyExists.into()));
    }
    Ok(())
}

/// Writes the file atomically, readable only by its owner.
fn write(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    let written = match force {
        true => file::write(path, bytes, file::PRIVATE),
        false => file::create(path, bytes, file::PRIVATE),
    };
    written.map_err(|error| write_failed(path, &error))
}

fn write_failed(path: &Path, error: &std::io::Error) -> Failure {
    let fix = match error.kind() {
        std::io::ErrorKind::AlreadyExists => "pass another file, or --force to replace it",
        _ => "`-` writes to stdout",
    };
    Failure::failed(format!("write {}: {error} — {fix}", path.display()))
}

fn summary(file: &Path, node: &Node, tree: &Tree, bytes: usize) -> String {
    let name = node.host.name.value().map_or("an unnamed machine", String::as_str);
    let mut text = format!(
        "snapshot of {name}: {} RDMA devices, {} net devices, {} GPUs, {} files, {} KiB\n",
        node.devices.len(),
        node.netdevs.len(),
        node.gpus.len(),
        tree.files_read(),
        bytes.div_ceil(1024),
    );
    let redacted: Vec<String> = tree.redacted().into_iter().collect();
    if !redacted.is_empty() {
        text += &format!("removed for secrets: parts of {}\n", redacted.join(", "));
    }
    text += "it contains this machine's name, its network and hardware addresses, and lines of the kernel log\n";
    if file != Path::new("-") {
        text += &format!("read it with: wirelane devices --root {}\n", file.display());
    }
    text
}
