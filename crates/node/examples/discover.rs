//! Measures how long reading a machine takes: `cargo run --release -p wirelane-node --example discover -- TREE.json`.
//!
//! The tree is unpacked into a folder, which becomes this process's root (this needs root), so that
//! each file is opened and read as on the machine itself. Without an argument this machine is read.
#![allow(clippy::disallowed_methods, reason = "it unpacks the tree")]
#![allow(clippy::print_stdout, reason = "the output of a program")]

use std::path::Path;
use std::time::Instant;

use node::{Node, Tree};

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let outside = std::fs::File::open("/")?;
    let tree = std::env::args().nth(1);
    if let Some(tree) = &tree {
        unpack(Path::new(tree), folder.path())?;
        rustix::process::chroot(folder.path())?;
    }
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let from = Tree::live(None);
        let start = Instant::now();
        let node = Node::read(&from);
        times.push((start.elapsed(), node));
    }
    times.sort_by_key(|(time, _)| *time);
    let (time, node) = &times[ROUNDS / 2];
    println!(
        "{} RDMA devices, {} GPUs, {} PCI functions, {} net devices: {:.1} ms (median of {ROUNDS}, max {:.1})",
        node.devices.len(),
        node.gpus.len(),
        node.pci.len(),
        node.netdevs.len(),
        time.as_secs_f64() * 1e3,
        times[ROUNDS - 1].0.as_secs_f64() * 1e3
    );
    if tree.is_some() {
        // Leaves the folder, so that it can be removed.
        rustix::process::fchdir(&outside)?;
        rustix::process::chroot(".")?;
    }
    Ok(())
}

/// Writes a tree's files, links and folders below a folder. Files that refuse to be read are left
/// empty.
fn unpack(tree: &Path, folder: &Path) -> Result<(), Failed> {
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(tree)?)?;
    let all = |name: &str| document[name].as_object().cloned().unwrap_or_default();
    let place = |path: &str| -> Result<_, std::io::Error> {
        let place = folder.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(place.parent().unwrap_or(folder))?;
        Ok(place)
    };
    for (path, contents) in all("files") {
        std::fs::write(place(&path)?, bytes(&contents))?;
    }
    for path in all("folders").keys() {
        std::fs::create_dir_all(place(path)?)?;
    }
    for (path, target) in all("links") {
        std::os::unix::fs::symlink(target.as_str().unwrap_or_default(), place(&path)?)?;
    }
    Ok(())
}

fn bytes(contents: &serde_json::Value) -> Vec<u8> {
    if let Some(hex) = contents["hex"].as_str() {
        let pairs = (0..hex.len()).step_by(2).filter_map(|at| hex.get(at..at + 2));
        return pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect();
    }
    contents.as_str().unwrap_or_default().as_bytes().to_vec()
}

const ROUNDS: usize = 21;
