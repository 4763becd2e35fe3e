//! SIGINT, SIGTERM and SIGXFSZ.
//!
//! Unsafe here: `signal` installs a handler that does nothing, which is safe at any point of the program.
#![allow(unsafe_code, reason = "installs a handler of SIGXFSZ")]

use std::io;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output::Failure;

/// The signals that stop a command.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    requests: Requests,
}

/// Tells requests to stop apart: a sender may send one signal several times, as `timeout` does to the process and to its group.
#[derive(Default)]
struct Requests {
    last: Option<(SignalKind, Instant)>,
}

impl Signals {
    /// Handles the signals from now on, instead of ending the process.
    pub(crate) fn new() -> Result<Self, Failure> {
        let signals = || -> io::Result<Self> {
            let interrupt = signal(SignalKind::interrupt())?;
            let terminate = signal(SignalKind::terminate())?;
            Ok(Signals { interrupt, terminate, requests: Requests::default() })
        };
        signals().map_err(|error| Failure::failed(format!("listen for signals: {error}")))
    }

    /// Waits for the next request to stop.
    pub(crate) async fn next(&mut self) {
        loop {
            let kind = tokio::select! {
                _ = self.interrupt.recv() => SignalKind::interrupt(),
                _ = self.terminate.recv() => SignalKind::terminate(),
            };
            if self.requests.is_new(kind, Instant::now()) {
                return;
            }
        }
    }
}

impl Requests {
    /// Whether a signal is a new request, and not a repetition of the last.
    fn is_new(&mut self, kind: SignalKind, now: Instant) -> bool {
        let repeats = |(last, at): (SignalKind, Instant)| last == kind && now < at + REPEAT_TIME;
        if self.last.is_some_and(repeats) {
            return false;
        }
        self.last = Some((kind, now));
        true
    }
}

/// Handles SIGXFSZ, so that a write beyond `ulimit -f` fails like a write to a full disk, instead of ending the process. A handler
/// and not `SIG_IGN`, which programs that are started would inherit.
pub(crate) fn ignore_file_size_limit() {
    extern "C" fn ignore(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = ignore;
    // SAFETY: `ignore` has the type of a handler, exists as long as the program, and does nothing. The signal has no other handler.
    unsafe { libc::signal(libc::SIGXFSZ, handler as libc::sighandler_t) };
}

/// Calls back at the first SIGINT or SIGTERM, from its own thread; the signals do not end the process any more.
pub(crate) fn on_first_signal(call: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("listen for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::new()?
    };
    let thread = std::thread::Builder::new().name("wirelane-signals".to_owned());
    // The thread waits until the process ends.
    let thread = thread.spawn(move || {
        runtime.block_on(signals.next());
        call();
    });
    thread.map(drop).map_err(failed)
}

/// The same signal within this time is the same request. A person who presses Ctrl-C again waits longer.
const REPEAT_TIME: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_signal_sent_twice_at_once_is_one_request() {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        let (mut requests, start) = (Requests::default(), Instant::now());
        assert!(requests.is_new(terminate, start));
        assert!(!requests.is_new(terminate, start));
        assert!(!requests.is_new(terminate, start + REPEAT_TIME / 2));
        assert!(requests.is_new(interrupt, start + REPEAT_TIME / 2), "another signal");
        let mut requests = Requests { last: Some((terminate, start)) };
        assert!(requests.is_new(terminate, start + REPEAT_TIME), "a second request");
    }
}
