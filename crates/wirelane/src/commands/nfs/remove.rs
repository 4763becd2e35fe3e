//! `wirelane nfs remove`: reverts what was made here, the newest first.

use change::nfs::folder;
use change::{Entry, Journal, Machine, Pick, Target};
use clap::Args;

use super::COMMAND;
use crate::commands::plans::refused;
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
    let history = Journal::read(&machine).map_err(refused)?;
    let picked = args.pick(&history.entries);
    if !args.restart_nfsd {
        disturbs_nobody(&machine, &picked)?;
    }
    let ids: Vec<u64> = picked.iter().map(|entry| entry.id).collect();
    args.options.revert(&machine, &Pick::Numbers(ids))
}

impl RemoveArgs {
    /// What is to be reverted. The module and the server are of use to what stays, and go with the last of it.
    fn pick<'e>(&self, entries: &'e [Entry]) -> Vec<&'e Entry> {
        let ours = |entry: &&Entry| {
            let mut words = entry.planned.command.split(' ');
            entry.reverted.is_none() && words.next() == Some(COMMAND)
        };
        let named = |entry: &Entry| {
            let mut words = entry.planned.command.split(' ');
            self.paths.is_empty() || words.any(|word| self.paths.iter().any(|path| path == word))
        };
        let (picked, stays): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().filter(ours).partition(|entry| named(entry));
        let shared = |entry: &&Entry| matches!(entry.planned.item.as_str(), "module" | "server");
        match stays.is_empty() {
            true => picked,
            false => picked.into_iter().filter(|entry| !shared(entry)).collect(),
        }
    }
}

/// Said before anything is touched.
fn disturbs_nobody(machine: &Machine, picked: &[&Entry]) -> Result<(), Failure> {
    let reader = machine.reader().map_err(refused)?;
    let goes = |dir: &String| {
        let is_it = |entry: &&Entry| matches!(&entry.planned.change.target, Target::Export { dir: of, .. } if of == dir);
        picked.iter().any(is_it)
    };
    let mut others: Vec<String> =
        picked.iter().flat_map(|entry| entry.disturbed_exports(&reader)).collect();
    others.retain(|dir| !goes(dir));
    if others.is_empty() {
        return Ok(());
    }
    Err(Failure::no(format!(
        "nothing was changed: nfsd also serves {}, and its RDMA listener goes only by restarting it, which holds up its \
         clients for seconds; --restart-nfsd allows that",
        others.join(", ")
    )))
}
