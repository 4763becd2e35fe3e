//! `wirelane kv`: the store's client. One file a command; what they share is how the store is reached
//! (`connector.rs`), keys and times as people write them, and where values come from and go to.

mod bench;
mod connector;
mod delete;
mod disk;
mod exists;
mod expiry;
mod get;
mod key;
mod list;
mod mget;
mod mput;
mod put;
mod put_options;
mod server;
mod sink;
mod source;
mod stat;

use clap::{Args, Subcommand};

use crate::output::{Exit, Failure};
use crate::settings::Global;
use connector::StoreArgs;

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct KvArgs {
    #[command(flatten)]
    way: StoreArgs,

    #[command(subcommand)]
    command: KvCommand,
}

#[derive(Debug, Subcommand)]
enum KvCommand {
    /// Store a value: given here, from a file, or from stdin
    Put(put::PutArgs),
    /// Fetch a value: to stdout, or into a file
    Get(get::GetArgs),
    /// Delete keys
    Delete(delete::DeleteArgs),
    /// Whether a key exists: exit code 0 or 1
    Exists(exists::ExistsArgs),
    /// What is known of a key's value: length, version, expiry
    Stat(stat::StatArgs),
    /// List keys
    Ls(list::ListArgs),
    /// Fetch several values by one request
    Mget(mget::MgetArgs),
    /// Store several values by one request
    Mput(mput::MputArgs),
    /// Measure the store, and check every value it gives
    Bench(bench::BenchArgs),
    /// Look at every value on a store's disk: whether it is what was written
    Fsck(disk::FsckArgs),
    /// Copy a store's disk into a file, while the store goes on
    Backup(disk::BackupArgs),
    /// Make a store's disk from such a copy
    Restore(disk::RestoreArgs),
}

pub(crate) fn run(global: &Global, args: &KvArgs) -> Result<Exit, Failure> {
    let way = &args.way;
    match &args.command {
        KvCommand::Put(args) => put::run(global, way, args),
        KvCommand::Get(args) => get::run(global, way, args),
        KvCommand::Delete(args) => delete::run(global, way, args),
        KvCommand::Exists(args) => exists::run(global, way, args),
        KvCommand::Stat(args) => stat::run(global, way, args),
        KvCommand::Ls(args) => list::run(global, way, args),
        KvCommand::Mget(args) => mget::run(global, way, args),
        KvCommand::Mput(args) => mput::run(global, way, args),
        KvCommand::Bench(args) => bench::run(global, way, args),
        KvCommand::Fsck(args) => disk::fsck(args),
        KvCommand::Backup(args) => disk::backup(args),
        KvCommand::Restore(args) => disk::restore(args),
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the answer is no: no such key, a condition that does not hold, no room, too long, not allowed
  2  wrong use
  3  failure: no store could be reached, or it was lost";
