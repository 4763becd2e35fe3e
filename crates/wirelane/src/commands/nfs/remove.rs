//! `wirelane nfs remove`: reverts the changes of `nfs`, newest first.

use change::nfs::folder;
use change::{Entry, Journal, Machine, Selection, Target};
use clap::Args;

use super::COMMAND;
use crate::commands::plans::failure;
use crate::commands::revert::RevertOptions;
use crate::output::{Exit, Failure};

#[derive(Debug, Args)]
pub(super) struct RemoveArgs {
    /// Only the changes for these directories and mount points (default: all)
    #[arg(value_name = "PATH", value_parser = folder)]
    paths: Vec<String>,

    /// Allow restarting an nfsd that has other exports too, which is required to remove its RDMA listener
    #[arg(long)]
    restart_nfsd: bool,

    #[command(flatten)]
    options: RevertOptions,
}

pub(super) fn run(args: &RemoveArgs) -> Result<Exit, Failure> {
    let machine = args.options.machine()?.with_restarts(args.restart_nfsd);
    let history = Journal::read(&machine).map_err(failure)?;
    let picked = args.pick(&history.entries);
    if !args.restart_nfsd {
        check_other_exports(&machine, &picked)?;
    }
    let ids: Vec<u64> = picked.iter().map(|entry| entry.id).collect();
    args.options.revert(&machine, &Selection::Numbers(ids))
}

impl RemoveArgs {
    /// The changes to revert. The kernel module and the server are shared, and are reverted with the last of the others.
    fn pick<'e>(&self, entries: &'e [Entry]) -> Vec<&'e Entry> {
        let ours = |entry: &&Entry| {
            let mut words = entry.planned.command.split(' ');
            entry.reverted.is_none() && words.next() == Some(COMMAND)
        };
        let named = |entry: &Entry| {
            let mut words = entry.planned.command.split(' ');
            self.paths.is_empty() || words.any(|word| self.paths.iter().any(|path| path == word))
        };
        let (picked, others): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().filter(ours).partition(|entry| named(entry));
        let shared = |entry: &&Entry| matches!(entry.planned.item.as_str(), "module" | "server");
        match others.is_empty() {
            true => picked,
            false => picked.into_iter().filter(|entry| !shared(entry)).collect(),
        }
    }
}

/// Fails before anything is changed, if nfsd would have to be restarted and has other exports.
fn check_other_exports(machine: &Machine, picked: &[&Entry]) -> Result<(), Failure> {
    let reader = machine.reader().map_err(failure)?;
    let is_removed = |dir: &String| {
        let is_export = |entry: &&Entry| matches!(&entry.planned.change.target, Target::Export { dir: of, .. } if of == dir);
        picked.iter().any(is_export)
    };
    let mut others: Vec<String> =
        picked.iter().flat_map(|entry| entry.disturbed_exports(&reader)).collect();
    others.retain(|dir| !is_removed(dir));
    if others.is_empty() {
        return Ok(());
    }
    Err(Failure::no(format!(
        "nothing was changed: nfsd also serves {}, and removing its RDMA listener requires a restart, which blocks its \
         clients for seconds; pass --restart-nfsd to allow it",
        others.join(", ")
    )))
}
