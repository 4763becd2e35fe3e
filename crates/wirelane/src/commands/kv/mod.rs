//! `wirelane kv`: the client of the store. One file per command; they share the connection (`connector.rs`),
//! the parsing of keys and times, and where values come from (`source.rs`) and go to (`sink.rs`).

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
    store: StoreArgs,

    #[command(subcommand)]
    command: KvCommand,
}

#[derive(Debug, Subcommand)]
enum KvCommand {
    /// Store a value from the command line, a file or stdin
    #[command(visible_alias = "set")]
    Put(put::PutArgs),
    /// Print a value, or save it to a file
    Get(get::GetArgs),
    /// Delete keys
    #[command(visible_alias = "del")]
    Delete(delete::DeleteArgs),
    /// Exit with 0 if a key exists, with 1 if not
    Exists(exists::ExistsArgs),
    /// Print length, version and expiry of a value
    Stat(stat::StatArgs),
    /// List keys
    Ls(list::ListArgs),
    /// Get several values with one request
    Mget(mget::MgetArgs),
    /// Store several values with one request
    Mput(mput::MputArgs),
    /// Measure the store, and verify every value that is read
    Bench(bench::BenchArgs),
    /// Verify every value in the data directory of a store
    Fsck(disk::FsckArgs),
    /// Copy the data directory of a store to a file; the store may be running
    Backup(disk::BackupArgs),
    /// Create the data directory of a store from a backup
    Restore(disk::RestoreArgs),
}

pub(crate) fn run(global: &Global, args: &KvArgs) -> Result<Exit, Failure> {
    let store = &args.store;
    match &args.command {
        KvCommand::Put(args) => put::run(global, store, args),
        KvCommand::Get(args) => get::run(global, store, args),
        KvCommand::Delete(args) => delete::run(global, store, args),
        KvCommand::Exists(args) => exists::run(global, store, args),
        KvCommand::Stat(args) => stat::run(global, store, args),
        KvCommand::Ls(args) => list::run(global, store, args),
        KvCommand::Mget(args) => mget::run(global, store, args),
        KvCommand::Mput(args) => mput::run(global, store, args),
        KvCommand::Bench(args) => bench::run(global, store, args),
        KvCommand::Fsck(args) => disk::fsck(args),
        KvCommand::Backup(args) => disk::backup(args),
        KvCommand::Restore(args) => disk::restore(args),
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  negative result: no such key, condition is false, store is full, value too long, permission denied
  2  usage error
  3  failure: could not connect to a store, or the connection was lost";
