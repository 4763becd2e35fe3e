//! A planned launch: what runs where.

use std::fmt;

use serde::Serialize;

use super::tag::Tag;
use crate::environment::{DeviceVerdict, Mode, shell_word};

/// A planned launch, ready to be printed or run.
#[derive(Debug, Serialize)]
pub struct Launch {
    /// The job's ID.
    pub id: String,
    /// The transport of its data: `rdma` or `tcp`.
    pub mode: Mode,
    /// The framework and its transport: `Open MPI 4.1.4 with UCX`.
    pub method: String,
    /// The program that runs on this machine and starts every rank; `None`: we start each host's `rank` script.
    pub launcher: Option<LocalLauncher>,
    /// Every host, in the order of their ranks.
    pub hosts: Vec<HostLaunch>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The reasons for the command line.
    pub explain: Vec<Reason>,
}

/// The launcher that runs on this machine.
#[derive(Debug, Serialize)]
pub struct LocalLauncher {
    /// A program and its arguments.
    pub command: Vec<String>,
    /// Variables added to the environment of this machine.
    pub environment: Vec<(String, String)>,
    /// How it tags the lines of its ranks.
    pub tag: Tag,
}

/// The part of a launch on one host; a host may have two parts.
#[derive(Debug, Serialize)]
pub struct HostLaunch {
    /// The user's name for it; for a parameter server beside a worker with `-ps` at its end.
    pub host: String,
    /// The index of the host in the list.
    pub host_index: usize,
    /// The job's folder there: created with mode 700 before anything starts (an existing one belongs to others),
    /// and removed at the end. It is different for each host, since two names may be one machine.
    pub folder: String,
    /// Number of ranks.
    pub slots: u32,
    /// The command of a rank; started by the local launcher, or once by us.
    pub command: Vec<String>,
    /// Variables of the script.
    pub environment: Vec<(String, String)>,
    /// The working folder of the command.
    pub directory: String,
    /// Folders with programs, searched before the host's own.
    pub path: String,
    /// The verdict on every device there.
    pub devices: Vec<DeviceVerdict>,
}

/// A part of a command line and its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The arguments: `--mca pml ucx`.
    pub what: String,
    /// The reason, in a sentence or two.
    pub why: String,
}

/// Why nothing can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The host that prevents it; `None`: the request, or this machine.
    pub host: Option<String>,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl Launch {
    /// The host that a rank runs on.
    pub fn host_of(&self, rank: u32) -> Option<&HostLaunch> {
        let mut first = 0u32;
        self.hosts.iter().find(|host| {
            first = first.saturating_add(host.slots);
            rank < first
        })
    }
}

impl HostLaunch {
    /// The script's name in the job's folder.
    pub const SCRIPT: &'static str = "rank";

    /// The command that starts a rank on the host.
    pub fn starter(&self) -> [String; 2] {
        // With sh: /tmp may be mounted noexec.
        ["sh".to_owned(), format!("{}/{}", self.folder, Self::SCRIPT)]
    }

    /// The text of the script: changes to the folder, sets the variables, checks for the program and executes it.
    pub fn script(&self) -> String {
        let mut text = format!(
            "#!/bin/sh\nPATH={}:$PATH; export PATH\ncd {} 2>/dev/null || cd\n",
            shell_word(&self.path),
            shell_word(&self.directory),
        );
        for (name, value) in &self.environment {
            text.push_str(&format!("export {name}={}\n", shell_word(value)));
        }
        let words: Vec<String> = self.command.iter().map(|word| shell_word(word)).collect();
        let program = words.first().map_or("''", String::as_str);
        let missing = format!("wirelane: {} has no program {program} in ", self.host);
        text.push_str(&format!(
            "command -v {program} >/dev/null 2>&1 || {{ printf '%s%s\\n' {} \"$(pwd) or $PATH\" >&2; exit 127; }}\n\
             exec {}\n",
            shell_word(&missing),
            words.join(" ")
        ));
        text
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(f, "{host}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}
