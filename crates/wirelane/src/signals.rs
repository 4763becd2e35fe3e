//! Ctrl-C and SIGTERM, and one that must not end a server.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

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
    pub(crate) fn outlive_file_limit() -> Result<(), Failure> {
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
