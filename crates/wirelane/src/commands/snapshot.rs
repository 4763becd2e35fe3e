//! `wirelane snapshot`: everything that is read on this machine, in one file, to be analysed elsewhere.

pub(crate) mod date;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use jobs::job;
use node::watch::Usage;
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
    /// Output file; `-` is stdout
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// A note, stored in the snapshot
    #[arg(long, value_name = "TEXT", alias = "about")]
    note: Option<String>,

    #[command(flatten)]
    host: HostArgs,
}

pub(crate) fn run(_global: &Global, args: &SnapshotArgs) -> Result<Exit, Failure> {
    let tree = args.host.tree()?;
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
        write(&args.file, document.as_bytes())?;
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
    let mode = job::Mode::Auto;
    let request = job::Request { environment, mode, peers: &[], peers_option: "", nccl: None };
    // Only for the files that it reads.
    let _ = job::plan(&node, tree, &request);
    node
}

/// Writes the file atomically, readable only by its owner.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::failed(format!("write {}: {error}; `-` writes to stdout", path.display()))
    };
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        let text = format!("write {}: not a regular file; `-` writes to stdout", path.display());
        return Err(Failure::usage(text));
    }
    file::write(path, bytes, file::PRIVATE).map_err(failed)
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
    let scrubbed: Vec<String> = tree.scrubbed().into_iter().collect();
    if !scrubbed.is_empty() {
        text += &format!("removed for secrets: parts of {}\n", scrubbed.join(", "));
    }
    text += "it contains this machine's name, its network and hardware addresses, and lines of the kernel log\n";
    if file != Path::new("-") {
        text += &format!("read it with: wirelane devices --root {}\n", file.display());
    }
    text
}
