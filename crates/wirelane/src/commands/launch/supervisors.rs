//! Starts, waits for and ends all supervisors of a job.

use std::time::{Duration, Instant};

use jobs::traffic::CounterSample;
use remote::Shell;

use super::events::{Event, Events};
use super::host_supervisor::HostSupervisor;
use super::job_output::JobOutput;
use crate::output::Failure;

/// Supervisors by their numbers. Output of the job is printed as it arrives.
pub(super) struct Supervisors<'v> {
    host_supervisors: Vec<HostSupervisor>,
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
            host_supervisors: Vec::new(),
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
        let report = self.events.sender(self.host_supervisors.len());
        self.host_supervisors.push(HostSupervisor::start(name, shell, (job, folder), report)?);
        Ok(())
    }

    /// Waits until all have their directories.
    pub(super) fn wait_until_ready(&mut self) -> Result<(), Failure> {
        self.wait(Some(START_TIMEOUT), |all| {
            all.host_supervisors.iter().all(HostSupervisor::is_ready) || all.lost().is_some()
        });
        if let Some(lost) = self.lost() {
            return Err(Failure::failed(lost.why_lost()));
        }
        match self.host_supervisors.iter().find(|host_supervisor| !host_supervisor.is_ready()) {
            Some(late) if !self.is_stopped => Err(Failure::failed(format!(
                "{}: no answer within {} s; try `{}`",
                late.name(),
                START_TIMEOUT.as_secs(),
                late.test_command()
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn file(&self, host_supervisor: usize, name: &str, text: &str) {
        self.host_supervisors[host_supervisor].supervisor().file(name, text);
    }

    pub(super) fn run(&self, host_supervisor: usize, name: &str) {
        self.host_supervisors[host_supervisor].supervisor().run(name);
    }

    /// The counters of the first hosts; `None` for those that do not answer in time.
    pub(super) fn counters(&mut self, hosts: usize) -> Vec<Option<CounterSample>> {
        self.host_supervisors[..hosts]
            .iter()
            .for_each(|host_supervisor| host_supervisor.supervisor().read_counters());
        self.wait(Some(COUNTERS_TIMEOUT), |all| {
            all.host_supervisors[..hosts].iter().all(HostSupervisor::has_counters)
        });
        self.host_supervisors[..hosts].iter_mut().map(HostSupervisor::take_counters).collect()
    }

    pub(super) fn host_supervisors(&self) -> &[HostSupervisor] {
        &self.host_supervisors
    }

    /// The first that was lost, or could not start.
    pub(super) fn lost(&self) -> Option<&HostSupervisor> {
        self.host_supervisors.iter().find(|host_supervisor| host_supervisor.is_lost())
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
        self.host_supervisors
            .iter_mut()
            .for_each(|host_supervisor| host_supervisor.supervisor_mut().end());
        let deadline = Instant::now() + END_TIMEOUT;
        while !self.host_supervisors.iter().all(HostSupervisor::is_gone)
            && Instant::now() < deadline
        {
            self.step(Some(deadline));
        }
        self.output.drop_lines();
        let mut unconfirmed = Vec::new();
        for host_supervisor in &mut self.host_supervisors {
            if !host_supervisor.supervisor_mut().wait(deadline.max(Instant::now() + SHORT_WAIT)) {
                unconfirmed.push(host_supervisor.name().to_owned());
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
            self.host_supervisors
                .iter()
                .for_each(|host_supervisor| host_supervisor.supervisor().keep_alive());
        }
    }

    fn take(&mut self, event: Event) {
        // Ctrl-C only ends the wait: its flag is checked after each event.
        let Event::Supervisor(number, event) = event else { return };
        let host_supervisor = &mut self.host_supervisors[number];
        if let Some((stream, line)) = host_supervisor.take(event) {
            self.output.line(number, stream, &line);
        }
        if self.first_failure.is_none() {
            let failed = host_supervisor.exit().filter(|code| *code != 0);
            self.first_failure = failed.map(|code| (host_supervisor.name().to_owned(), code));
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
