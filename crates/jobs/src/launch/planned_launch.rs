//! A planned job: what runs where.

use std::fmt;

use serde::Serialize;

use super::tag::Tag;
use crate::job::{Judged, Mode, shell_word};

/// A job, ready to be printed or run.
#[derive(Debug, Serialize)]
pub struct Launch {
    /// The job's id.
    pub id: String,
    /// How its data moves: `rdma` or `tcp`.
    pub mode: Mode,
    /// By whom, in a few words: `Open MPI 4.1.4 by UCX`.
    pub way: String,
    /// What runs here and starts every rank; `None`: each host's `rank` script is started by us.
    pub head: Option<Head>,
    /// Every host, in the order of their ranks.
    pub hosts: Vec<OnHost>,
    /// What to know.
    pub notes: Vec<String>,
    /// Why the command line is as it is.
    pub explain: Vec<Reason>,
}

/// What runs here.
#[derive(Debug, Serialize)]
pub struct Head {
    /// A program and its arguments.
    pub command: Vec<String>,
    /// Added to the environment that is here.
    pub environment: Vec<(String, String)>,
    /// How it marks the lines of its ranks.
    pub tag: Tag,
}

/// What runs on one host.
#[derive(Debug, Serialize)]
pub struct OnHost {
    /// What the user calls it.
    pub host: String,
    /// The job's folder there: made anew with mode 700 before anything starts (one that exists already is somebody
    /// else's), and removed at the end. No two hosts have the same, since two names may be one machine.
    pub folder: String,
    /// How many ranks it has.
    pub slots: u32,
    /// What a rank runs; started by the head, or once by us.
    pub command: Vec<String>,
    /// Variables that the script sets.
    pub environment: Vec<(String, String)>,
    /// The folder that the command runs in.
    pub directory: String,
    /// Folders with programs, before the host's own.
    pub path: String,
    /// What became of every device there.
    pub devices: Vec<Judged>,
}

/// Why something is as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// What is typed: `--mca pml ucx`.
    pub what: String,
    /// Why, in a sentence or two.
    pub why: String,
}

/// Why nothing can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The host that prevents it; `None`: what was asked for, or this machine.
    pub host: Option<String>,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl Launch {
    /// The host that a rank runs on.
    pub fn host_of(&self, rank: u32) -> Option<&OnHost> {
        let mut first = 0u32;
        self.hosts.iter().find(|host| {
            first = first.saturating_add(host.slots);
            rank < first
        })
    }
}

impl OnHost {
    /// The script's name in the job's folder.
    pub const SCRIPT: &'static str = "rank";

    /// What starts a rank on the host.
    pub fn starter(&self) -> [String; 2] {
        // By sh: programs may be forbidden in /tmp.
        ["sh".to_owned(), format!("{}/{}", self.folder, Self::SCRIPT)]
    }

    /// The text of the script: finds the folder and the program, sets the variables, becomes the command.
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
