//! `wirelane man`: one manual page per command, from the definitions of commands.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;

use crate::commands::help;
use crate::output::{Exit, Failure, file};

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Directory for wirelane.1 and the pages of its commands; created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(args: &ManArgs) -> Result<Exit, Failure> {
    let failed = |path: &Path, error: io::Error| {
        Failure::failed(format!("write manual pages: {}: {error}", path.display()))
    };
    let folder = &args.folder;
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut command = help::command();
    command.build();
    for (name, page) in pages(&command).map_err(|error| failed(folder, error))? {
        let path = folder.join(name);
        file::write(&path, &page, file::READABLE).map_err(|error| failed(&path, error))?;
    }
    Ok(Exit::Done)
}

/// The names and pages of a command and its subcommands.
fn pages(command: &Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let mut found = vec![(page.get_filename(), text)];
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        found.append(&mut pages(inner)?);
    }
    Ok(found)
}
