//! One supervisor of a job, and how far it is.

use jobs::proof::CounterSample;
use remote::{Error, Shell, Stream, Supervisor, SupervisorEvent};

/// A supervisor's state, as its events tell it.
pub(super) struct Member {
    /// Its host, as the user calls it; or what starts the ranks.
    name: String,
    shell: Shell,
    supervisor: Supervisor,
    is_ready: bool,
    /// How what it was ordered to run has ended.
    exit: Option<i32>,
    counters: Option<CounterSample>,
    /// It is no more, though nobody ordered it to end.
    is_gone: bool,
    refusal: Option<String>,
    /// What was last printed as an error: if the supervisor cannot start, it is why.
    last_error: String,
}

impl Member {
    /// Starts a supervisor for a job whose folder there shall be `folder`.
    pub(super) fn start(
        name: &str,
        shell: &Shell,
        (job, folder): (&str, &str),
        report: impl Fn(SupervisorEvent) -> bool + Clone + Send + 'static,
    ) -> Result<Self, Error> {
        Ok(Member {
            name: name.to_owned(),
            shell: shell.clone(),
            supervisor: Supervisor::start(shell, job, folder, report)?,
            is_ready: false,
            exit: None,
            counters: None,
            is_gone: false,
            refusal: None,
            last_error: String::new(),
        })
    }

    /// Takes an event of its supervisor. What the job printed is given back, to be shown.
    pub(super) fn take(&mut self, event: SupervisorEvent) -> Option<(Stream, String)> {
        match event {
            SupervisorEvent::Ready => self.is_ready = true,
            SupervisorEvent::Refused(why) => self.refusal = Some(why),
            SupervisorEvent::Exit(code) => self.exit = Some(code),
            SupervisorEvent::Counters(counters) => self.counters = Some(counters),
            SupervisorEvent::Closed => self.is_gone = true,
            SupervisorEvent::Line(stream, line) => {
                if stream == Stream::Err && !line.trim().is_empty() {
                    self.last_error.clone_from(&line);
                }
                return Some((stream, line));
            }
        }
        None
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    pub(super) fn supervisor_mut(&mut self) -> &mut Supervisor {
        &mut self.supervisor
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    pub(super) fn exit(&self) -> Option<i32> {
        self.exit
    }

    /// Its outputs are closed.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Whether it is no more, or could not begin.
    pub(super) fn is_lost(&self) -> bool {
        self.is_gone || self.refusal.is_some()
    }

    /// Whether nothing more is to be expected of its counters.
    pub(super) fn has_counters(&self) -> bool {
        self.counters.is_some() || self.is_gone
    }

    pub(super) fn take_counters(&mut self) -> Option<CounterSample> {
        self.counters.take()
    }

    /// A command by which a person can try whether its host is reached.
    pub(super) fn test_command(&self) -> String {
        self.shell.test_command()
    }

    /// In one line.
    pub(super) fn why_lost(&self) -> String {
        let reason = doctor::one_line(&self.last_error);
        match (&self.refusal, self.is_ready) {
            (Some(why), _) => format!("{}: {why} ({reason})", self.name),
            (None, false) => {
                let (program, trial) = (self.shell.program(), self.shell.test_command());
                format!("{program} to {}: {reason}; try `{trial}`", self.name)
            }
            (None, true) => format!(
                "{}: the connection was lost ({}); everything else was ended",
                self.name,
                if reason.is_empty() { "no reason was given" } else { &reason }
            ),
        }
    }
}
