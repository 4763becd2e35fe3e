//! One supervisor of a job, and its state.

use jobs::traffic::CounterSample;
use remote::{Error, Shell, Stream, Supervisor, SupervisorEvent};

/// A supervisor and its state, from its events.
pub(super) struct HostSupervisor {
    /// The host, as the user named it, or the launcher.
    name: String,
    shell: Shell,
    supervisor: Supervisor,
    is_ready: bool,
    /// The exit code of what it runs.
    exit: Option<i32>,
    counters: Option<CounterSample>,
    /// Its outputs are closed.
    is_gone: bool,
    refusal: Option<String>,
    /// The last line of stderr: the reason, if the supervisor cannot start.
    last_error: String,
}

impl HostSupervisor {
    /// Starts a supervisor, for a job with the directory `folder` there.
    pub(super) fn start(
        name: &str,
        shell: &Shell,
        (job, folder): (&str, &str),
        report: impl Fn(SupervisorEvent) -> bool + Clone + Send + 'static,
    ) -> Result<Self, Error> {
        Ok(HostSupervisor {
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

    /// Processes an event of its supervisor. Returns a line of output of the job.
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

    /// Whether its outputs are closed.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Whether it was lost, or could not start.
    pub(super) fn is_lost(&self) -> bool {
        self.is_gone || self.refusal.is_some()
    }

    /// Whether its counters have arrived, or cannot arrive any more.
    pub(super) fn has_counters(&self) -> bool {
        self.counters.is_some() || self.is_gone
    }

    pub(super) fn take_counters(&mut self) -> Option<CounterSample> {
        self.counters.take()
    }

    /// A command to test the connection by hand.
    pub(super) fn test_command(&self) -> String {
        self.shell.test_command()
    }

    /// Why it was lost, as one line.
    pub(super) fn why_lost(&self) -> String {
        let reason = doctor::one_line(&self.last_error);
        match (&self.refusal, self.is_ready) {
            (Some(why), _) => format!("{}: {why} ({reason})", self.name),
            (None, false) => {
                let (program, command) = (self.shell.program(), self.shell.test_command());
                format!("{program} to {}: {reason}; try `{command}`", self.name)
            }
            (None, true) => format!(
                "{}: the connection was lost ({}); all other processes were ended",
                self.name,
                if reason.is_empty() { "no reason" } else { &reason }
            ),
        }
    }
}
