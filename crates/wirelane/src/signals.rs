//! Ctrl-C and SIGTERM, and one that must not end a server.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output::Failure;

/// What tells a command to stop.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on signals are heard here, and do not end the process by themselves.
    pub(crate) fn new() -> Result<Self, Failure> {
        let signals = || -> io::Result<Self> {
            let interrupt = signal(SignalKind::interrupt())?;
            Ok(Signals { interrupt, terminate: signal(SignalKind::terminate())? })
        };
        signals().map_err(|error| Failure::failed(format!("listen for signals: {error}")))
    }

    /// A file that may grow no further (`ulimit -f`) then fails to be written, as on a disk that fails; by itself the
    /// signal would end the process.
    pub(crate) fn ignore_file_size_limit() -> Result<(), Failure> {
        let heard = signal(SignalKind::from_raw(libc::SIGXFSZ));
        heard.map(drop).map_err(|error| Failure::failed(format!("listen for signals: {error}")))
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Calls back at the first Ctrl-C or SIGTERM, from a thread of its own; neither ends the process by itself any more.
pub(crate) fn on_first_signal(call: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("listen for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::new()?
    };
    let thread = std::thread::Builder::new().name("wirelane-signals".to_owned());
    // It waits for ever, and ends with the process.
    let thread = thread.spawn(move || {
        runtime.block_on(signals.next());
        call();
    });
    thread.map(drop).map_err(failed)
}
