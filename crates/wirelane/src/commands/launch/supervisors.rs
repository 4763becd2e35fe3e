//! Starts, waits for and ends all supervisors of a job.

use std::time::{Duration, Instant};

use jobs::traffic::CounterSample;
use remote::Shell;

use super::events::{Event, Events};
use super::job_output::JobOutput;
use super::member::Member;
use crate::output::Failure;

/// Supervisors by their numbers. Output of the job is printed as it arrives.
pub(super) struct Supervisors<'v> {
    members: Vec<Member>,
    events: Events,
    output: &'v mut JobOutput,
    /// Whether a wait was interrupted by Ctrl-C: the job must end.
    is_stopped: bool,
    /// The first that ended with an exit code other than 0.
    first_failure: Option<(String, i32)>,
    /// When the last keep-alive was sent.
    kept_alive: Instant,
}

/// How waiting ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Done,
    Late,
    Stopped,
}

impl<'v> Supervisors<'v> {
    /// Without supervisors yet. From now on Ctrl-C ends the job instead of the program.
    pub(super) fn new(output: &'v mut JobOutput) -> Result<Self, Failure> {
        Ok(Supervisors {
            members: Vec::new(),
            events: Events::new()?,
            output,
            is_stopped: false,
            first_failure: None,
            kept_alive: Instant::now(),
        })
    }

    /// Starts a supervisor, for a job with the directory `folder` there.
    pub(super) fn add(
        &mut self,
        name: &str,
        shell: &Shell,
        job: &str,
        folder: &str,
    ) -> Result<(), Failure> {
        let report = self.events.sender(self.members.len());
        self.members.push(Member::start(name, shell, (job, folder), report)?);
        Ok(())
    }

    /// Waits until all have their directories.
    pub(super) fn wait_until_ready(&mut self) -> Result<(), Failure> {
        self.wait(Some(START_TIMEOUT), |all| {
            all.members.iter().all(Member::is_ready) || all.lost().is_some()
        });
        if let Some(lost) = self.lost() {
            return Err(Failure::failed(lost.why_lost()));
        }
        match self.members.iter().find(|member| !member.is_ready()) {
            Some(late) if !self.is_stopped => Err(Failure::failed(format!(
                "{}: no answer within {} s; try `{}`",
                late.name(),
                START_TIMEOUT.as_secs(),
                late.test_command()
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn file(&self, member: usize, name: &str, text: &str) {
        self.members[member].supervisor().file(name, text);
    }

    pub(super) fn run(&self, member: usize, name: &str) {
        self.members[member].supervisor().run(name);
    }

    /// The counters of the first hosts; `None` for those that do not answer in time.
    pub(super) fn counters(&mut self, hosts: usize) -> Vec<Option<CounterSample>> {
        self.members[..hosts].iter().for_each(|member| member.supervisor().read_counters());
        self.wait(Some(COUNTERS_TIMEOUT), |all| {
            all.members[..hosts].iter().all(Member::has_counters)
        });
        self.members[..hosts].iter_mut().map(Member::take_counters).collect()
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// The first that was lost, or could not start.
    pub(super) fn lost(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.is_lost())
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub(super) fn first_failure(&self) -> Option<&(String, i32)> {
        self.first_failure.as_ref()
    }

    /// Processes events until the condition is true, Ctrl-C, or the limit.
    pub(super) fn wait(
        &mut self,
        limit: Option<Duration>,
        condition: impl Fn(&Supervisors<'_>) -> bool,
    ) -> Waited {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let was_stopped = self.is_stopped;
        while !condition(self) {
            if self.is_stopped && !was_stopped {
                return Waited::Stopped;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Waited::Late;
            }
            self.step(deadline);
        }
        Waited::Done
    }

    /// Ends the job on all hosts, and prints the rest of its output. Returns the hosts that did not end in time.
    pub(super) fn end(mut self) -> Vec<String> {
        if self.is_stopped {
            self.output.drop_lines();
        }
        self.members.iter_mut().for_each(|member| member.supervisor_mut().end());
        let deadline = Instant::now() + END_TIMEOUT;
        while !self.members.iter().all(Member::is_gone) && Instant::now() < deadline {
            self.step(Some(deadline));
        }
        self.output.drop_lines();
        let mut unconfirmed = Vec::new();
        for member in &mut self.members {
            if !member.supervisor_mut().wait(deadline.max(Instant::now() + SHORT_WAIT)) {
                unconfirmed.push(member.name().to_owned());
            }
        }
        // The last output, which may arrive after the first stream was closed.
        while let Some(event) = self.events.next(SHORT_WAIT) {
            self.take(event);
        }
        self.finish();
        unconfirmed
    }

    /// Waits until all output is printed, without a limit, unless Ctrl-C was pressed.
    fn finish(&self) {
        while !self.output.flush(SHORT_WAIT) && !self.events.is_interrupted() {}
    }

    /// Processes the next event, if there is one soon, and sends keep-alives.
    fn step(&mut self, deadline: Option<Instant>) {
        let left = deadline.map_or(KEEP_ALIVE_INTERVAL, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        // While the terminal is blocked no events are processed, but keep-alives are sent, and Ctrl-C is handled.
        if self.output.is_blocked() {
            std::thread::sleep(SHORT_WAIT);
        } else if let Some(event) = self.events.next(left.min(KEEP_ALIVE_INTERVAL)) {
            self.take(event);
        }
        self.is_stopped |= self.events.is_interrupted();
        if self.kept_alive.elapsed() >= KEEP_ALIVE_INTERVAL {
            self.kept_alive = Instant::now();
            self.members.iter().for_each(|member| member.supervisor().keep_alive());
        }
    }

    fn take(&mut self, event: Event) {
        // Ctrl-C only ends the wait: its flag is checked after each event.
        let Event::Supervisor(number, event) = event else { return };
        let member = &mut self.members[number];
        if let Some((stream, line)) = member.take(event) {
            self.output.line(number, stream, &line);
        }
        if self.first_failure.is_none() {
            let failed = member.exit().filter(|code| *code != 0);
            self.first_failure = failed.map(|code| (member.name().to_owned(), code));
        }
    }
}

const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(60);
/// For connecting; ssh itself gives up sooner.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// For a host to read its counters.
const COUNTERS_TIMEOUT: Duration = Duration::from_secs(20);
/// For hosts to end all processes: supervisors kill after 3 s, and give up after 8.
const END_TIMEOUT: Duration = Duration::from_secs(15);
const SHORT_WAIT: Duration = Duration::from_millis(200);
