//! All supervisors of a job: started, waited for, and ended together.

use std::time::{Duration, Instant};

use jobs::proof::CounterSample;
use remote::Shell;

use super::events::{Event, Events};
use super::job_output::JobOutput;
use super::member::Member;
use crate::output::Failure;

/// Supervisors by their numbers. What their jobs print is shown as it comes.
pub(super) struct Supervisors<'v> {
    members: Vec<Member>,
    events: Events,
    output: &'v mut JobOutput,
    /// Whether a wait has seen Ctrl-C: the job is to end.
    is_stopped: bool,
    /// Who ended first with another code than 0.
    first_failure: Option<(String, i32)>,
    /// When supervisors were last told that we are still here.
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
    /// None yet. From now on Ctrl-C ends the job instead of the program.
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

    /// Starts one more supervisor, for a job whose folder there shall be `folder`.
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

    /// Until all have their folders.
    pub(super) fn get_ready(&mut self) -> Result<(), Failure> {
        self.wait(Some(START), |all| {
            all.members.iter().all(Member::is_ready) || all.lost().is_some()
        });
        if let Some(lost) = self.lost() {
            return Err(Failure::failed(lost.why_lost()));
        }
        match self.members.iter().find(|member| !member.is_ready()) {
            Some(late) if !self.is_stopped => Err(Failure::failed(format!(
                "{}: it does not answer within {} s; try `{}`",
                late.name(),
                START.as_secs(),
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

    /// The counters of the first so many hosts; those that do not answer in time are missing.
    pub(super) fn counters(&mut self, hosts: usize) -> Vec<Option<CounterSample>> {
        self.members[..hosts].iter().for_each(|member| member.supervisor().read_counters());
        self.wait(Some(LOOK), |all| all.members[..hosts].iter().all(Member::has_counters));
        self.members[..hosts].iter_mut().map(Member::take_counters).collect()
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// The first that is no more, or could not begin.
    pub(super) fn lost(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.is_lost())
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub(super) fn first_failure(&self) -> Option<&(String, i32)> {
        self.first_failure.as_ref()
    }

    /// Takes events until it is so, or Ctrl-C, or the time is up.
    pub(super) fn wait(
        &mut self,
        limit: Option<Duration>,
        is_so: impl Fn(&Supervisors<'_>) -> bool,
    ) -> Waited {
        let until = limit.map(|limit| Instant::now() + limit);
        let was_stopped = self.is_stopped;
        while !is_so(self) {
            if self.is_stopped && !was_stopped {
                return Waited::Stopped;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Waited::Late;
            }
            self.step(until);
        }
        Waited::Done
    }

    /// Ends the job everywhere, and takes what is still printed. Returns the hosts that did not end in time.
    pub(super) fn end(mut self) -> Vec<String> {
        if self.is_stopped {
            self.output.hurry();
        }
        self.members.iter_mut().for_each(|member| member.supervisor_mut().end());
        let until = Instant::now() + END;
        while !self.members.iter().all(Member::is_gone) && Instant::now() < until {
            self.step(Some(until));
        }
        self.output.hurry();
        let mut left = Vec::new();
        for member in &mut self.members {
            if !member.supervisor_mut().wait(until.max(Instant::now() + SHORT)) {
                left.push(member.name().to_owned());
            }
        }
        // What was printed to the last, by who closed its outputs one after the other.
        while let Some(event) = self.events.next(SHORT) {
            self.take(event);
        }
        self.finish();
        left
    }

    /// Until all is shown. Who reads may take his time, unless he has told us to stop.
    fn finish(&self) {
        while !self.output.flush(SHORT) && !self.events.is_interrupted() {}
    }

    /// Takes the next event, if there is one soon, and keeps the supervisors alive.
    fn step(&mut self, until: Option<Instant>) {
        let left = until.map_or(BEAT, |until| until.saturating_duration_since(Instant::now()));
        // While who reads stands still so does the job, but it is kept alive, and Ctrl-C is seen.
        if self.output.is_behind() {
            std::thread::sleep(SHORT);
        } else if let Some(event) = self.events.next(left.min(BEAT)) {
            self.take(event);
        }
        self.is_stopped |= self.events.is_interrupted();
        if self.kept_alive.elapsed() >= BEAT {
            self.kept_alive = Instant::now();
            self.members.iter().for_each(|member| member.supervisor().keep_alive());
        }
    }

    fn take(&mut self, event: Event) {
        // Ctrl-C only wakes who waits: its flag is looked at after each event.
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

/// How often supervisors are told that we are still here.
const BEAT: Duration = Duration::from_secs(60);
/// How long connections may take: ssh itself gives up sooner.
const START: Duration = Duration::from_secs(60);
/// How long a host may take to read its counters.
const LOOK: Duration = Duration::from_secs(20);
/// How long hosts may take to end all processes: supervisors kill after 3 s, and give up after 8.
const END: Duration = Duration::from_secs(15);
const SHORT: Duration = Duration::from_millis(200);
