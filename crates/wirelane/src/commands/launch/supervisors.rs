//! All supervisors of a job, and what was heard of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use jobs::proof::Look;

use super::job_output::JobOutput;
use crate::output::Failure;
use crate::signals;
use remote::{EventKind, Shell, Stream, Supervisor, SupervisorEvent};

/// Supervisors by their numbers. What they say is shown as it comes.
pub(super) struct Supervisors<'v> {
    pub(super) members: Vec<Member>,
    rx: Receiver<SupervisorEvent>,
    tx: SyncSender<SupervisorEvent>,
    output: &'v mut JobOutput,
    /// Set by Ctrl-C.
    stop: Arc<AtomicBool>,
    /// Ctrl-C was heard.
    pub(super) is_stopped: bool,
    /// Who ended first with another code than 0.
    pub(super) failed: Option<(String, i32)>,
    told: Instant,
}

/// One supervisor, and how far it is.
pub(super) struct Member {
    /// Its host, as the user calls it; or what starts the ranks.
    pub(super) name: String,
    shell: Shell,
    supervisor: Supervisor,
    is_ready: bool,
    /// How what it was told to run has ended.
    pub(super) exit: Option<i32>,
    look: Option<Look>,
    /// It is no more, though nobody told it to end.
    is_gone: bool,
    refusal: Option<String>,
    /// What was last printed as an error: if the supervisor cannot start, it is why.
    complaint: String,
}

/// How waiting ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Done,
    Late,
    Stopped,
}

impl<'v> Supervisors<'v> {
    /// Nobody yet. From now on Ctrl-C is heard here.
    pub(super) fn new(output: &'v mut JobOutput) -> Result<Self, Failure> {
        let (tx, rx) = sync_channel(QUEUE);
        let (stop, wake) = (Arc::new(AtomicBool::new(false)), tx.clone());
        let stopped = stop.clone();
        signals::then(move || {
            stopped.store(true, Relaxed);
            // Where there is no room, somebody is awake.
            let _ =
                wake.try_send(SupervisorEvent { supervisor: usize::MAX, what: EventKind::Gone });
        })?;
        let (members, told) = (Vec::new(), Instant::now());
        Ok(Supervisors { members, rx, tx, output, stop, is_stopped: false, failed: None, told })
    }

    /// Starts one more supervisor, for a job whose folder there shall be `folder`.
    pub(super) fn add(
        &mut self,
        name: &str,
        shell: &Shell,
        job: &str,
        folder: &str,
    ) -> Result<(), Failure> {
        let supervisor = Supervisor::start(shell, (job, folder), self.members.len(), &self.tx)?;
        self.members.push(Member {
            name: name.to_owned(),
            shell: shell.clone(),
            supervisor,
            is_ready: false,
            exit: None,
            look: None,
            is_gone: false,
            refusal: None,
            complaint: String::new(),
        });
        Ok(())
    }

    /// Until all have their folders.
    pub(super) fn get_ready(&mut self) -> Result<(), Failure> {
        self.wait(Some(START), |supervisors| {
            supervisors.members.iter().all(|member| member.is_ready) || supervisors.lost().is_some()
        });
        if let Some(lost) = self.lost() {
            return Err(Failure::failed(lost.why_lost()));
        }
        match self.members.iter().find(|member| !member.is_ready) {
            Some(_) if self.is_stopped => Ok(()),
            Some(late) => Err(Failure::failed(format!(
                "{}: it does not answer within {} s; try `{}`",
                late.name,
                START.as_secs(),
                late.shell.trial()
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn file(&self, member: usize, name: &str, text: &str) {
        self.members[member].supervisor.file(name, text);
    }

    pub(super) fn run(&self, member: usize, name: &str) {
        self.members[member].supervisor.run(name);
    }

    /// The counters of the first so many hosts; those that do not tell in time are missing.
    pub(super) fn look(&mut self, hosts: usize) -> Vec<Option<Look>> {
        for member in &self.members[..hosts] {
            member.supervisor.look();
        }
        self.wait(Some(LOOK), |supervisors| {
            supervisors.members[..hosts]
                .iter()
                .all(|member| member.look.is_some() || member.is_gone)
        });
        self.members[..hosts].iter_mut().map(|member| member.look.take()).collect()
    }

    /// The first that is no more, or could not begin.
    pub(super) fn lost(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.is_gone || member.refusal.is_some())
    }

    /// Listens until it is so, or Ctrl-C, or the time is up.
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
            self.listen(until);
        }
        Waited::Done
    }

    /// Ends the job everywhere, and hears it out. Hosts that could not be asked in time are named.
    pub(super) fn end(mut self) -> Vec<String> {
        if self.is_stopped {
            self.output.hurry();
        }
        for member in &mut self.members {
            member.supervisor.end();
        }
        let until = Instant::now() + END;
        while self.members.iter().any(|member| !member.is_gone) && Instant::now() < until {
            self.listen(Some(until));
        }
        self.output.hurry();
        let mut left = Vec::new();
        for member in &mut self.members {
            if !member.supervisor.wait(until.max(Instant::now() + SHORT)) {
                left.push(member.name.clone());
            }
        }
        // What was printed to the last, by who closed its outputs one after the other.
        while let Ok(heard) = self.rx.recv_timeout(SHORT) {
            self.take(heard);
        }
        self.finish();
        left
    }

    /// Until all is shown. Who reads may take his time, unless he has told us to stop.
    fn finish(&self) {
        while !self.output.flush(SHORT) && !self.stop.load(Relaxed) {}
    }

    fn listen(&mut self, until: Option<Instant>) {
        let left = until.map_or(BEAT, |until| until.saturating_duration_since(Instant::now()));
        // While who reads stands still so does the job, but it is kept alive, and Ctrl-C is heard.
        if self.output.is_behind() {
            std::thread::sleep(SHORT);
        } else if let Ok(heard) = self.rx.recv_timeout(left.min(BEAT)) {
            self.take(heard);
        }
        self.is_stopped |= self.stop.load(Relaxed);
        if self.told.elapsed() >= BEAT {
            self.told = Instant::now();
            self.members.iter().for_each(|member| member.supervisor.hear());
        }
    }

    fn take(&mut self, heard: SupervisorEvent) {
        // The one without a number only woke us.
        let Some(member) = self.members.get_mut(heard.supervisor) else { return };
        match heard.what {
            EventKind::Ready => member.is_ready = true,
            EventKind::Refused(why) => member.refusal = Some(why),
            EventKind::Exit(code) => {
                member.exit = Some(code);
                if code != 0 && self.failed.is_none() {
                    self.failed = Some((member.name.clone(), code));
                }
            }
            EventKind::Seen(look) => member.look = Some(look),
            EventKind::Gone => member.is_gone = true,
            EventKind::Line(stream, line) => {
                if stream == Stream::Err && !line.trim().is_empty() {
                    member.complaint.clone_from(&line);
                }
                self.output.line(heard.supervisor, stream, &line);
            }
        }
    }
}

impl Member {
    /// In one line.
    pub(super) fn why_lost(&self) -> String {
        let said = doctor::one_line(&self.complaint);
        match (&self.refusal, self.is_ready) {
            (Some(why), _) => format!("{}: {why} ({said})", self.name),
            (None, false) => {
                let (program, trial) = (self.shell.program(), self.shell.trial());
                format!("{program} to {}: {said}; try `{trial}`", self.name)
            }
            (None, true) => format!(
                "{}: the connection was lost ({}); everything else was ended",
                self.name,
                if said.is_empty() { "nothing was said" } else { &said }
            ),
        }
    }
}

const QUEUE: usize = 1024;
/// How often supervisors are told that we are still here.
const BEAT: Duration = Duration::from_secs(60);
/// How long connections may take: ssh itself gives up sooner.
const START: Duration = Duration::from_secs(60);
/// How long a host may take to read its counters.
const LOOK: Duration = Duration::from_secs(20);
/// How long hosts may take to end all processes: supervisors kill after 3 s, and give up after 8.
const END: Duration = Duration::from_secs(15);
const SHORT: Duration = Duration::from_millis(200);
