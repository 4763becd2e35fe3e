//! Runs a planned job: starts it on all hosts, waits, ends it on all hosts, and evaluates the counters.

use std::collections::BTreeSet;
use std::time::Duration;

use jobs::environment::{Mode, shell_word};
use jobs::launch::{HostLaunch, Launch, LocalLauncher};
use jobs::traffic::{CounterSample, HostSamples, ModeChoice, Traffic, job_traffic};
use serde::Serialize;

use super::job_output::{JobOutput, launcher_name};
use super::probe::{self, ProbedHost};
use super::supervisors::{Supervisors, Waited};
use crate::output::Failure;
use remote::Shell;

/// The job to run.
pub(super) struct Planned<'p> {
    pub(super) launch: &'p Launch,
    pub(super) found: &'p [ProbedHost],
    /// The --mode of the user.
    pub(super) requested: Mode,
    /// The number of parts of the launch, the first ones, whose processes end by themselves; the others are servers.
    pub(super) awaited: usize,
}

/// The result.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) traffic: Traffic,
    /// Hosts that did not confirm in time that the job has ended there.
    pub(super) unconfirmed: Vec<String>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// Successfully.
    Done,
    /// The first that failed, and its exit code.
    Failed { who: String, code: i32 },
    /// A host was lost.
    Lost { why: String },
    /// By Ctrl-C.
    Stopped,
}

/// Counters of every host before and after.
#[derive(Default)]
struct Counters {
    before: Vec<Option<CounterSample>>,
    after: Vec<Option<CounterSample>>,
}

impl Planned<'_> {
    /// Runs the job.
    pub(super) fn run(&self, output: &mut JobOutput) -> Result<Ended, Failure> {
        let mut counters = Counters::default();
        let mut supervisors = Supervisors::new(output)?;
        let outcome = self.run_supervised(&mut supervisors, &mut counters);
        // Also after errors: nothing is left running on any host.
        let unconfirmed = supervisors.end();
        Ok(Ended { outcome: outcome?, traffic: self.traffic(&counters), unconfirmed })
    }

    fn run_supervised(
        &self,
        supervisors: &mut Supervisors<'_>,
        counters: &mut Counters,
    ) -> Result<Outcome, Failure> {
        let hosts = self.launch.hosts.len();
        self.start_supervisors(supervisors)?;
        if !supervisors.is_stopped() {
            counters.before = supervisors.counters(hosts);
        }
        if supervisors.is_stopped() {
            return Ok(Outcome::Stopped);
        }
        match &self.launch.launcher {
            Some(_) => supervisors.run(hosts, LAUNCHER_FILE),
            None => (0..hosts).for_each(|host| supervisors.run(host, HostLaunch::SCRIPT)),
        }
        let waited = supervisors.wait(None, |supervisors| self.has_ended(supervisors));
        if self.awaited < hosts && waited == Waited::Done {
            // Some servers end by themselves after the others.
            supervisors.wait(Some(SERVER_GRACE), |supervisors| {
                supervisors
                    .host_supervisors()
                    .iter()
                    .all(|host_supervisor| host_supervisor.exit().is_some())
            });
        }
        if supervisors.first_failure().is_some_and(|(_, code)| is_signal(*code)) {
            // Ranks may have been ended by the loss of another host, which is detected a moment later.
            supervisors.wait(Some(SERVER_GRACE), |supervisors| supervisors.lost().is_some());
        }
        let outcome = outcome(supervisors, &waited);
        counters.after = supervisors.counters(hosts);
        Ok(outcome)
    }

    /// Starts a supervisor with its files on each host, and one for the launcher on this machine.
    fn start_supervisors(&self, supervisors: &mut Supervisors<'_>) -> Result<(), Failure> {
        let id = &self.launch.id;
        for host in &self.launch.hosts {
            let found = &self.found[host.host_index];
            supervisors.add(&host.host, &found.shell, id, &host.folder)?;
        }
        if let Some(launcher) = &self.launch.launcher {
            let here = Shell::on("localhost")?;
            supervisors.add(&launcher_name(&launcher.command), &here, id, &launcher_folder(id))?;
        }
        supervisors.wait_until_ready()?;
        for (number, host) in self.launch.hosts.iter().enumerate() {
            supervisors.file(number, HostLaunch::SCRIPT, &host.script());
        }
        if let Some(launcher) = &self.launch.launcher {
            supervisors.file(self.launch.hosts.len(), LAUNCHER_FILE, &launcher_script(launcher));
            if let Some(ssh_replacement) = probe::ssh_replacement(self.found) {
                supervisors.file(self.launch.hosts.len(), SSH_REPLACEMENT_FILE, &ssh_replacement);
            }
        }
        Ok(())
    }

    /// Whether all processes that end by themselves have ended, or one has failed.
    fn has_ended(&self, supervisors: &Supervisors<'_>) -> bool {
        let hosts = self.launch.hosts.len();
        let awaited = match &self.launch.launcher {
            Some(_) => &supervisors.host_supervisors()[hosts..],
            None => &supervisors.host_supervisors()[..self.awaited],
        };
        supervisors.first_failure().is_some()
            || supervisors.lost().is_some()
            || awaited.iter().all(|host_supervisor| host_supervisor.exit().is_some())
    }

    fn traffic(&self, counters: &Counters) -> Traffic {
        let mut counted = BTreeSet::new();
        // A host with two parts has one set of counters.
        let hosts = self.launch.hosts.iter().enumerate();
        let hosts = hosts.filter(|(_, host)| counted.insert(host.host_index));
        let samples: Vec<HostSamples> = hosts
            .map(|(number, host)| HostSamples {
                name: &host.host,
                node: &self.found[host.host_index].node,
                before: counters.before.get(number).and_then(Option::as_ref),
                after: counters.after.get(number).and_then(Option::as_ref),
            })
            .collect();
        job_traffic(&samples, ModeChoice { requested: self.requested, planned: self.launch.mode })
    }
}

fn outcome(supervisors: &Supervisors<'_>, waited: &Waited) -> Outcome {
    if *waited == Waited::Stopped {
        return Outcome::Stopped;
    }
    match (supervisors.first_failure(), supervisors.lost()) {
        (Some((who, code)), lost) if lost.is_none() || !is_signal(*code) => {
            Outcome::Failed { who: who.clone(), code: *code }
        }
        (_, Some(lost)) => Outcome::Lost { why: lost.why_lost() },
        _ => Outcome::Done,
    }
}

/// Whether an exit code of a shell means that the command was ended by a signal.
fn is_signal(code: i32) -> bool {
    code > 128
}

/// The script of the launcher.
pub(super) fn launcher_script(launcher: &LocalLauncher) -> String {
    let mut text = "#!/bin/sh\n".to_owned();
    for (name, value) in &launcher.environment {
        text.push_str(&format!("export {name}={}\n", shell_word(value)));
    }
    let words: Vec<String> = launcher.command.iter().map(|word| shell_word(word)).collect();
    text.push_str(&format!("exec {}\n", words.join(" ")));
    text
}

/// The directory of the launcher, beside those of hosts.
pub(super) fn launcher_folder(id: &str) -> String {
    format!("/tmp/wirelane-{id}-here")
}

/// The script of the launcher, in its directory.
const LAUNCHER_FILE: &str = "launcher";
/// The replacement of ssh, in the directory of the launcher.
pub(super) const SSH_REPLACEMENT_FILE: &str = "agent";
/// How long servers may take to end by themselves.
const SERVER_GRACE: Duration = Duration::from_secs(3);
