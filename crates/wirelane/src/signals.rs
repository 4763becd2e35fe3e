//! SIGINT, SIGTERM and SIGXFSZ.
//!
//! Unsafe here: `signal` installs a handler that does nothing, which is safe at any point of the program.
#![allow(unsafe_code, reason = "installs a handler of SIGXFSZ")]

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output::Failure;

/// The signals that stop a command.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Handles the signals from now on, instead of ending the process.
    pub(crate) fn new() -> Result<Self, Failure> {
        let signals = || -> io::Result<Self> {
            let interrupt = signal(SignalKind::interrupt())?;
            Ok(Signals { interrupt, terminate: signal(SignalKind::terminate())? })
        };
        signals().map_err(|error| Failure::failed(format!("listen for signals: {error}")))
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
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
