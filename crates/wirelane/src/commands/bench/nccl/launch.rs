//! The command that starts a job's processes, and its environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Command;

use clap::Args;
use jobs::environment::{EnvironmentPlan, shell_word};
use node::Node;

use super::hosts::Hosts;
use crate::arguments::host::HostArgs;
use crate::arguments::size::Size;
use crate::commands::env::{JobArgs, ModeArg};
use crate::output;
use crate::output::{Exit, Failure};

/// Hosts, GPUs and sizes of a run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub(in crate::commands::bench) struct JobShapeArgs {
    /// Hosts with their number of GPUs (default: only this host)
    #[arg(long, value_name = "HOST:GPUS,…")]
    pub(in crate::commands::bench) hosts: Option<Hosts>,

    /// Number of GPUs of this host (default: all)
    #[arg(long, value_name = "N", conflicts_with = "hosts", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(in crate::commands::bench) gpus: Option<u32>,

    /// Require RDMA, disable it, or use it if available
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: ModeArg,

    /// Smallest size
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    pub(in crate::commands::bench) from: Size,

    /// Largest size
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(in crate::commands::bench) to: Size,

    /// Iterations per size (default: 100; with PyTorch 20)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(in crate::commands::bench) iterations: Option<u32>,

    /// Print the command and run nothing
    #[arg(long)]
    pub(in crate::commands::bench) dry_run: bool,
}

impl JobShapeArgs {
    /// Number of GPUs of this host that take part.
    pub(in crate::commands::bench) fn gpus_here(&self, host: &HostArgs) -> Result<u32, Failure> {
        if let Some(gpus) = self.gpus {
            return Ok(gpus);
        }
        match nvidia_gpus(host)? {
            0 if self.dry_run => Ok(1),
            0 => Err(Failure::failed(
                "bench nccl: no GPU with NVIDIA's driver on this machine; use `wirelane bench torch --backend gloo`, or \
                 --read to evaluate a log from another machine",
            )),
            gpus => Ok(gpus),
        }
    }
}

/// Number of GPUs with NVIDIA's driver.
pub(in crate::commands::bench) fn nvidia_gpus(host: &HostArgs) -> Result<u32, Failure> {
    let node = Node::read(&host.tree()?);
    let nvidia = node.gpus.iter().filter(|gpu| gpu.driver.as_deref() == Some("nvidia"));
    Ok(nvidia.count().try_into().unwrap_or(u32::MAX))
}

/// A command and its environment.
#[derive(Debug)]
pub(in crate::commands::bench) struct Launch {
    environment: BTreeMap<String, String>,
    /// mpirun and its options; empty for a run on this host only.
    launcher: Vec<OsString>,
    program: Vec<OsString>,
    /// Long words of the command, and what `show` prints instead.
    abbreviations: Vec<(OsString, &'static str)>,
    /// The RDMA ports of this host that it uses.
    ports: Vec<String>,
}

impl Launch {
    /// For a program and its arguments: on this host directly, or on several with mpirun.
    pub(in crate::commands::bench) fn new(
        place: &JobShapeArgs,
        host: &HostArgs,
        words: Vec<OsString>,
    ) -> Result<Launch, Failure> {
        if place.from.0 > place.to.0 {
            return Err(Failure::usage("--from is larger than --to"));
        }
        let names = place.hosts.as_ref().map(Hosts::names).unwrap_or_default();
        let job = JobArgs::with_hosts(host.root.clone(), place.mode, names);
        let plan = job.plan()?.plan;
        job.report(&plan.devices, &plan.notes);
        Ok(match &place.hosts {
            Some(hosts) => Launch::with_mpi(hosts, &plan, words),
            None => Launch {
                environment: own_variables(&plan).collect(),
                launcher: Vec::new(),
                program: words,
                abbreviations: Vec::new(),
                ports: plan.ports(),
            },
        })
    }

    /// mpirun reads its own variables itself, and exports others with `-x`.
    fn with_mpi(hosts: &Hosts, plan: &EnvironmentPlan, program: Vec<OsString>) -> Launch {
        let is_mpi = |name: &str| name.starts_with("OMPI_MCA_");
        let mut words: Vec<OsString> =
            vec!["mpirun".into(), "-np".into(), hosts.ranks().to_string().into()];
        words.extend(["--host".into(), hosts.slots().into()]);
        if rustix::process::geteuid().is_root() {
            // mpirun refuses to run as root without this.
            words.push("--allow-run-as-root".into());
        }
        for variable in plan.variables.iter().filter(|variable| !is_mpi(&variable.name)) {
            let export = match variable.is_users {
                true => variable.name.clone(),
                false => format!("{}={}", variable.name, variable.value),
            };
            words.extend(["-x".into(), export.into()]);
        }
        let environment = own_variables(plan).filter(|(name, _)| is_mpi(name)).collect();
        let ports = plan.ports();
        Launch { environment, launcher: words, program, abbreviations: Vec::new(), ports }
    }

    /// Sets a variable for every process, unless the user has set it.
    pub(in crate::commands::bench) fn set(&mut self, name: &str, value: &str) {
        if std::env::var_os(name).is_some() {
            return;
        }
        if self.launcher.is_empty() {
            self.environment.insert(name.to_owned(), value.to_owned());
        } else {
            self.launcher.extend(["-x".into(), format!("{name}={value}").into()]);
        }
    }

    /// Makes NCCL log the transports that it uses.
    pub(in crate::commands::bench) fn enable_nccl_log(&mut self) {
        self.set("NCCL_DEBUG_SUBSYS", "INIT,NET");
        self.set("NCCL_DEBUG", "INFO");
    }

    /// Prints `shell` instead of a long word.
    pub(in crate::commands::bench) fn abbreviate(&mut self, word: OsString, shell: &'static str) {
        self.abbreviations.push((word, shell));
    }

    /// Prints the command for a shell.
    pub(in crate::commands::bench) fn show(&self) -> Result<Exit, Failure> {
        let variables =
            self.environment.iter().map(|(name, value)| format!("{name}={}", shell_word(value)));
        let word = |word: &OsString| {
            let short = self.abbreviations.iter().find(|(long, _)| long == word);
            short.map_or_else(
                || shell_word(&word.to_string_lossy()),
                |(_, shell)| (*shell).to_owned(),
            )
        };
        let words: Vec<String> = variables.chain(self.words().map(word)).collect();
        output::answer(&format!("{}\n", words.join(" ")))?;
        Ok(Exit::Done)
    }

    /// The RDMA ports of this host that it uses; empty: none.
    pub(super) fn ports(&self) -> &[String] {
        &self.ports
    }

    /// Name of the program that is started.
    pub(super) fn name(&self) -> String {
        self.words().next().map_or_else(String::new, |word| word.to_string_lossy().into_owned())
    }

    pub(super) fn command(&self) -> Command {
        let mut words = self.words();
        let mut command = Command::new(words.next().map_or("".as_ref(), OsString::as_os_str));
        command.args(words).envs(&self.environment);
        command
    }

    fn words(&self) -> impl Iterator<Item = &OsString> {
        self.launcher.iter().chain(&self.program)
    }
}

/// Variables that are not already in the user's environment.
fn own_variables(plan: &EnvironmentPlan) -> impl Iterator<Item = (String, String)> {
    let ours = plan.variables.iter().filter(|variable| !variable.is_users);
    ours.map(|variable| (variable.name.clone(), variable.value.clone()))
}
