//! `wirelane man`: one manual page per command, from the definitions of commands.

use std::path::PathBuf;

use clap::Args;

use crate::commands::help;
use crate::output::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Directory for wirelane.1 and the pages of its commands; created if missing
    folder: PathBuf,
}

pub(crate) fn run(args: &ManArgs) -> Result<Exit, Failure> {
    let folder = &args.folder;
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(help::command(), folder));
    match written {
        Ok(()) => Ok(Exit::Done),
        Err(error) => {
            Err(Failure::failed(format!("write manual pages into {}: {error}", folder.display())))
        }
    }
}
