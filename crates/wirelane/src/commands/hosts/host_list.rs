//! Which hosts are meant: by the command line, a file, or a scheduler.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use jobs::inventory::{HostSource, Inventory, environment};

use super::yaml;
use crate::output::Failure;

/// The hosts of a job. Without any, those that Slurm, PBS, the MPI operator or WIRELANE_HOSTS name.
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
    /// The hosts; none where nobody named any.
    pub(crate) fn find(&self) -> Result<Option<Inventory>, Failure> {
        if let Some(list) = &self.hosts {
            let inventory = Inventory::from_list(list);
            return inventory.map(Some).map_err(|wrong| Failure::usage(format!("--hosts {wrong}")));
        }
        if let Some(path) = &self.hostfile {
            return read(path, "--hostfile").map(Some);
        }
        let variable = |name: &str| std::env::var(name).ok();
        let found = environment(variable)
            .map_err(|wrong| Failure::usage(format!("the scheduler's list of hosts {wrong}")))?;
        match found {
            None => Ok(None),
            Some(HostSource::Hosts { inventory, .. }) => Ok(Some(inventory)),
            Some(HostSource::File { variable, path }) => read(Path::new(&path), variable).map(Some),
        }
    }

    /// The hosts, of which there must be some.
    pub(crate) fn inventory(&self) -> Result<Inventory, Failure> {
        self.find()?.ok_or_else(|| {
            Failure::usage(
                "no hosts are named: give --hosts a:4,b:4 or --hostfile FILE, or run inside an \
                 allocation of Slurm",
            )
        })
    }
}

/// Reads a file of hosts, which `named` named.
fn read(path: &Path, named: &str) -> Result<Inventory, Failure> {
    let shown = path.display();
    let wrong = |error: std::io::Error| Failure::failed(format!("{named} {shown}: {error}"));
    let mut text = String::new();
    let file = File::open(path).map_err(wrong)?;
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > LONGEST {
        return Err(Failure::usage(format!("{named} {shown}: is larger than 4 MiB")));
    }
    let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let inventory = if is_yaml {
        yaml::parse(&text)
    } else {
        Inventory::from_file(&text).map_err(|wrong| wrong.to_string())
    };
    inventory.map_err(|wrong| Failure::usage(format!("{named} {shown}: {wrong}")))
}

/// 4096 hosts with long lines.
const LONGEST: u64 = 4 << 20;
