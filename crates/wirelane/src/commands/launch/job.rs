//! A planned job, run: started everywhere, waited for, ended everywhere, proven.

use std::time::Duration;

use jobs::job::{Mode, shell_word};
use jobs::launch::{HostLaunch, Launch, LocalLauncher};
use jobs::proof::{CounterSample, HostSamples, ModeChoice, Proof, prove};
use serde::Serialize;

use super::job_output::{JobOutput, head_name};
use super::probe::{self, Found};
use super::supervisors::{Supervisors, Waited};
use crate::output::Failure;
use remote::Shell;

/// What is to be run.
pub(super) struct Planned<'p> {
    pub(super) launch: &'p Launch,
    pub(super) found: &'p [Found],
    /// With RDMA or without, as the user asked.
    pub(super) asked: Mode,
    /// How many hosts, the first ones, end by themselves; the others serve them.
    pub(super) awaited: usize,
}

/// What became of it.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) proof: Proof,
    /// Hosts that did not say in time that all has ended there.
    pub(super) left: Vec<String>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// Well.
    Done,
    /// The first that failed, and its code.
    Failed { who: String, code: i32 },
    /// A host was lost.
    Lost { why: String },
    /// By Ctrl-C.
    Stopped,
}

/// Counters of every host before and after.
#[derive(Default)]
struct Looks {
    before: Vec<Option<CounterSample>>,
    after: Vec<Option<CounterSample>>,
}

impl Planned<'_> {
    /// Runs it to its end.
    pub(super) fn run(&self, output: &mut JobOutput) -> Result<Ended, Failure> {
        let mut looks = Looks::default();
        let mut supervisors = Supervisors::new(output)?;
        let outcome = self.play(&mut supervisors, &mut looks);
        // Whatever happened: nothing is left running anywhere.
        let left = supervisors.end();
        Ok(Ended { outcome: outcome?, proof: self.proof(&looks), left })
    }

    fn play(
        &self,
        supervisors: &mut Supervisors<'_>,
        looks: &mut Looks,
    ) -> Result<Outcome, Failure> {
        let hosts = self.launch.hosts.len();
        self.gather(supervisors)?;
        if !supervisors.is_stopped() {
            looks.before = supervisors.counters(hosts);
        }
        if supervisors.is_stopped() {
            return Ok(Outcome::Stopped);
        }
        match &self.launch.head {
            Some(_) => supervisors.run(hosts, HEAD),
            None => (0..hosts).for_each(|host| supervisors.run(host, HostLaunch::SCRIPT)),
        }
        let waited = supervisors.wait(None, |supervisors| self.is_over(supervisors));
        if self.awaited < hosts && waited == Waited::Done {
            // Some end when all they served have.
            supervisors.wait(Some(GRACE), |supervisors| {
                supervisors.members().iter().all(|member| member.exit().is_some())
            });
        }
        if supervisors.first_failure().is_some_and(|(_, code)| is_signal(*code)) {
            // What ends ranks may be the loss of another host, which is noticed a moment later.
            supervisors.wait(Some(GRACE), |supervisors| supervisors.lost().is_some());
        }
        let outcome = outcome(supervisors, &waited);
        looks.after = supervisors.counters(hosts);
        Ok(outcome)
    }

    /// A supervisor with its files for each host, and one for what starts the ranks here.
    fn gather(&self, supervisors: &mut Supervisors<'_>) -> Result<(), Failure> {
        let id = &self.launch.id;
        for (host, found) in self.launch.hosts.iter().zip(self.found) {
            supervisors.add(&host.host, &found.shell, id, &host.folder)?;
        }
        if let Some(head) = &self.launch.head {
            let here = Shell::on("localhost")?;
            supervisors.add(&head_name(&head.command), &here, id, &head_folder(id))?;
        }
        supervisors.get_ready()?;
        for (number, host) in self.launch.hosts.iter().enumerate() {
            supervisors.file(number, HostLaunch::SCRIPT, &host.script());
        }
        if let Some(head) = &self.launch.head {
            supervisors.file(self.launch.hosts.len(), HEAD, &head_script(head));
            if let Some(agent) = probe::agent(self.found) {
                supervisors.file(self.launch.hosts.len(), AGENT, &agent);
            }
        }
        Ok(())
    }

    /// All that end by themselves have ended well, or one has not.
    fn is_over(&self, supervisors: &Supervisors<'_>) -> bool {
        let hosts = self.launch.hosts.len();
        let awaited = match &self.launch.head {
            Some(_) => &supervisors.members()[hosts..],
            None => &supervisors.members()[..self.awaited],
        };
        supervisors.first_failure().is_some()
            || supervisors.lost().is_some()
            || awaited.iter().all(|member| member.exit().is_some())
    }

    fn proof(&self, looks: &Looks) -> Proof {
        let hosts = self.launch.hosts.iter().zip(self.found).enumerate();
        let samples: Vec<HostSamples> = hosts
            .map(|(number, (host, found))| HostSamples {
                name: &host.host,
                node: &found.node,
                before: looks.before.get(number).and_then(Option::as_ref),
                after: looks.after.get(number).and_then(Option::as_ref),
            })
            .collect();
        prove(&samples, ModeChoice { requested: self.asked, planned: self.launch.mode })
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

/// Whether a shell's code says that the command was ended from outside.
fn is_signal(code: i32) -> bool {
    code > 128
}

/// What starts the ranks, as a script.
pub(super) fn head_script(head: &LocalLauncher) -> String {
    let mut text = "#!/bin/sh\n".to_owned();
    for (name, value) in &head.environment {
        text.push_str(&format!("export {name}={}\n", shell_word(value)));
    }
    let words: Vec<String> = head.command.iter().map(|word| shell_word(word)).collect();
    text.push_str(&format!("exec {}\n", words.join(" ")));
    text
}

/// Where what starts the ranks has its folder, beside those of hosts.
pub(super) fn head_folder(id: &str) -> String {
    format!("/tmp/wirelane-{id}-here")
}

const HEAD: &str = "head";
/// What leads to the other hosts, in the folder of what starts the ranks.
pub(super) const AGENT: &str = "agent";
/// How long servers may take to end by themselves.
const GRACE: Duration = Duration::from_secs(3);
