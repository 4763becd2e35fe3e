//! The one program: parse, run, exit code.
//!
//! `cli` holds what can be typed, one module per command does the work and renders it, `exit` maps
//! outcomes to exit codes, `output` is the only door to stdout. Nothing below this crate reads the
//! environment or a configuration file; what libfabric reads of it, `surroundings` sets.
//!
//! Start at [`main`].

mod bench;
mod caller;
mod capture;
mod changed;
mod changes;
mod cli;
mod completions;
pub mod config;
mod connect;
mod devices;
mod doctor;
mod endpoint;
mod env;
mod exec;
mod exit;
mod explain;
mod exporter;
mod host;
mod hosts;
mod install;
mod k8s;
mod key_file;
mod kv;
mod launch;
mod libfabric;
mod logging;
mod man;
mod nfs;
mod outbox;
mod output;
mod peer;
mod rdma;
mod remote;
mod revert;
mod route;
mod secret_file;
mod serve;
mod setup;
mod signals;
mod size;
mod snapshot;
mod surroundings;
mod ticket;
mod tls_file;
mod token;
mod top;
mod topo;
mod transport;
mod tune;
mod version;
mod watch;
mod web;
mod within;

use clap::Parser;

use cli::{Cli, Command};
use exit::{Exit, Failure};

/// Runs the program with the process's own arguments.
pub fn main() -> ! {
    // A library that hangs while it is loaded, as a GPU's may, would keep an orderly end from happening.
    exit::at_once(run(Cli::parse()))
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    let global = &cli.global.with_environment();
    if cli.version {
        return version::run(global);
    }
    let Some(command) = cli.command else { return cli::help() };
    if command.makes_links() {
        surroundings::prepare();
    }
    match command {
        Command::Serve(args) => serve::run(global, &args),
        Command::Connect(args) => connect::run(global, &args),
        Command::Bench(args) => bench::run(global, &args),
        Command::Kv(args) => kv::run(global, &args),
        Command::Token(args) => token::run(&args),
        Command::Devices(args) => devices::run(global, &args),
        Command::Topo(args) => topo::run(global, &args),
        Command::Snapshot(args) => snapshot::run(global, &args),
        Command::Doctor(args) => doctor::run(global, &args),
        Command::Explain(args) => explain::run(global, &args),
        Command::Exporter(args) => exporter::run(global, &args),
        Command::Top(args) => top::run(global, &args),
        Command::Hosts(args) => hosts::run(global, &args),
        Command::Launch(args) => launch::run(global, &args),
        Command::Setup(args) => setup::run(global, &args),
        Command::Nfs(args) => nfs::run(global, &args),
        Command::Install(args) => install::run(global, &args),
        Command::Env(args) => env::run(global, &args),
        Command::Exec(args) => exec::run(global, &args),
        Command::Tune(args) => tune::run(global, &args),
        Command::Changes(args) => changes::run(global, &args),
        Command::Revert(args) => revert::run(global, &args),
        Command::K8s(args) => k8s::run(global, &args),
        Command::Capture(args) => capture::run(global, &args),
        Command::Config(args) => config::command::run(global, &args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
