//! The command that starts a job's processes, and the environment it has.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Command;

use clap::Args;
use jobs::job::{Plan, shell_word};
use node::Node;

use super::hosts::Hosts;
use crate::arguments::host::HostArgs;
use crate::arguments::size::Size;
use crate::commands::env::{JobArgs, ModeArg};
use crate::output;
use crate::output::{Exit, Failure};

/// Where it runs, and what is measured there.
#[derive(Debug, Args)]
#[command(next_help_heading = "The run")]
pub(in crate::commands::bench) struct PlaceArgs {
    /// Hosts with their GPUs; without it, this one alone
    #[arg(long, value_name = "HOST:GPUS,…")]
    pub(in crate::commands::bench) hosts: Option<Hosts>,

    /// GPUs of this host (default: all)
    #[arg(long, value_name = "N", conflicts_with = "hosts", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(in crate::commands::bench) gpus: Option<u32>,

    /// Require RDMA, disable it, or use it where there is some
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: ModeArg,

    /// The smallest size
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    pub(in crate::commands::bench) from: Size,

    /// The largest
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(in crate::commands::bench) to: Size,

    /// Times that each size is measured (default: 100; with PyTorch 20)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(in crate::commands::bench) iterations: Option<u32>,

    /// Print the command, and run nothing
    #[arg(long)]
    pub(in crate::commands::bench) dry_run: bool,
}

impl PlaceArgs {
    /// GPUs that take part on this host.
    pub(in crate::commands::bench) fn gpus_here(&self, host: &HostArgs) -> Result<u32, Failure> {
        if let Some(gpus) = self.gpus {
            return Ok(gpus);
        }
        match nvidia_gpus(host)? {
            0 if self.dry_run => Ok(1),
            0 => Err(Failure::failed(
                "bench nccl: this machine has no GPU with NVIDIA's driver; `wirelane bench torch --backend gloo` measures \
                 without, and --read reads a log from elsewhere",
            )),
            gpus => Ok(gpus),
        }
    }
}

/// GPUs with NVIDIA's driver.
pub(in crate::commands::bench) fn nvidia_gpus(host: &HostArgs) -> Result<u32, Failure> {
    let node = Node::read(&host.tree()?);
    let ours = node.gpus.iter().filter(|gpu| gpu.driver.as_deref() == Some("nvidia"));
    Ok(ours.count().try_into().unwrap_or(u32::MAX))
}

/// A command and its environment.
#[derive(Debug)]
pub(in crate::commands::bench) struct Launch {
    environment: BTreeMap<String, String>,
    /// mpirun and its options; empty on this host alone.
    launcher: Vec<OsString>,
    program: Vec<OsString>,
    /// Where a word of the command stands for something long.
    shown_as: Vec<(OsString, &'static str)>,
}

impl Launch {
    /// For a program and its arguments: alone on this host, or by mpirun on several.
    pub(in crate::commands::bench) fn new(
        place: &PlaceArgs,
        host: &HostArgs,
        words: Vec<OsString>,
    ) -> Result<Launch, Failure> {
        if place.from.0 > place.to.0 {
            return Err(Failure::usage("--from is more than --to: write the smaller size first"));
        }
        let names = place.hosts.as_ref().map(Hosts::names).unwrap_or_default();
        let job = JobArgs::with_peers(host.root.clone(), place.mode, names);
        let plan = job.plan()?.plan;
        job.report(&plan.devices, &plan.notes);
        Ok(match &place.hosts {
            Some(hosts) => Launch::by_mpi(hosts, &plan, words),
            None => Launch {
                environment: ours(&plan).collect(),
                launcher: Vec::new(),
                program: words,
                shown_as: Vec::new(),
            },
        })
    }

    /// mpirun reads its own variables itself, and hands others on when told.
    fn by_mpi(hosts: &Hosts, plan: &Plan, program: Vec<OsString>) -> Launch {
        let is_mpis = |name: &str| name.starts_with("OMPI_MCA_");
        let mut words: Vec<OsString> =
            vec!["mpirun".into(), "-np".into(), hosts.ranks().to_string().into()];
        words.extend(["--host".into(), hosts.slots().into()]);
        if rustix::process::geteuid().is_root() {
            // Whoever starts this as root means it.
            words.push("--allow-run-as-root".into());
        }
        for setting in plan.settings.iter().filter(|setting| !is_mpis(&setting.name)) {
            let handed = match setting.is_users {
                true => setting.name.clone(),
                false => format!("{}={}", setting.name, setting.value),
            };
            words.extend(["-x".into(), handed.into()]);
        }
        let environment = ours(plan).filter(|(name, _)| is_mpis(name)).collect();
        Launch { environment, launcher: words, program, shown_as: Vec::new() }
    }

    /// Sets a variable for every process, unless the user has.
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

    /// Has NCCL say which ways it takes.
    pub(in crate::commands::bench) fn listen(&mut self) {
        self.set("NCCL_DEBUG_SUBSYS", "INIT,NET");
        self.set("NCCL_DEBUG", "INFO");
    }

    /// A long word is shown as what a shell puts in its place.
    pub(in crate::commands::bench) fn show_as(&mut self, word: OsString, shell: &'static str) {
        self.shown_as.push((word, shell));
    }

    /// The command for a shell.
    pub(in crate::commands::bench) fn show(&self) -> Result<Exit, Failure> {
        let variables =
            self.environment.iter().map(|(name, value)| format!("{name}={}", shell_word(value)));
        let word = |word: &OsString| {
            let shown = self.shown_as.iter().find(|(long, _)| long == word);
            shown.map_or_else(
                || shell_word(&word.to_string_lossy()),
                |(_, shell)| (*shell).to_owned(),
            )
        };
        let words: Vec<String> = variables.chain(self.words().map(word)).collect();
        output::answer(&format!("{}\n", words.join(" ")))?;
        Ok(Exit::Done)
    }

    /// What is run.
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

/// Settings that are not the user's own already.
fn ours(plan: &Plan) -> impl Iterator<Item = (String, String)> {
    let ours = plan.settings.iter().filter(|setting| !setting.is_users);
    ours.map(|setting| (setting.name.clone(), setting.value.clone()))
}
