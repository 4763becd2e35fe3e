//! The list of hosts: from the command line, a file, or a scheduler.

use std::io::Read;
use std::path::{Path, PathBuf};

use access::files::InputFile;
use clap::Args;
use jobs::inventory::{HostSource, Inventory, environment};

use super::yaml;
use crate::output::Failure;

/// The hosts of a job; by default those of Slurm, PBS, the MPI operator or WIRELANE_HOSTS.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostListArgs {
    /// The hosts by their ssh names, with the number of processes on each: a:4,b:4 or gpu[001-032]:8
    #[arg(long, value_name = "HOST[:SLOTS],…", conflicts_with = "hostfile")]
    hosts: Option<String>,

    /// File with the hosts: an MPI host file, or YAML (*.yaml, *.yml)
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
}

impl HostListArgs {
    /// The hosts; `None` if no source has any.
    pub(crate) fn find(&self) -> Result<Option<Inventory>, Failure> {
        if let Some(list) = &self.hosts {
            let inventory = Inventory::from_list(list);
            return inventory.map(Some).map_err(|error| Failure::usage(format!("--hosts {error}")));
        }
        if let Some(path) = &self.hostfile {
            return read(path, "--hostfile").map(Some);
        }
        let variable = |name: &str| std::env::var(name).ok();
        let found = environment(variable)
            .map_err(|error| Failure::usage(format!("the scheduler's list of hosts {error}")))?;
        match found {
            None => Ok(None),
            Some(HostSource::Hosts { inventory, .. }) => Ok(Some(inventory)),
            Some(HostSource::File { variable, path }) => read(Path::new(&path), variable).map(Some),
        }
    }

    /// The hosts; an error if there are none.
    pub(crate) fn inventory(&self) -> Result<Inventory, Failure> {
        self.find()?.ok_or_else(|| {
            Failure::usage(
                "no hosts: pass --hosts a:4,b:4 or --hostfile FILE, or run in a Slurm allocation",
            )
        })
    }
}

/// Reads a host file; `origin` is the option or variable with its path.
fn read(path: &Path, origin: &str) -> Result<Inventory, Failure> {
    let name = path.display();
    let failed = |error: std::io::Error| Failure::failed(format!("{origin} {name}: {error}"));
    let mut text = String::new();
    let file = InputFile::open(path).map_err(failed)?;
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Failure::usage(format!("{origin} {name}: larger than 4 MiB")));
    }
    let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let inventory = if is_yaml {
        yaml::parse(&text)
    } else {
        Inventory::from_file(&text).map_err(|error| error.to_string())
    };
    inventory.map_err(|error| Failure::usage(format!("{origin} {name}: {error}")))
}

/// Enough for 4096 hosts with long lines.
const MAX_BYTES: u64 = 4 << 20;
