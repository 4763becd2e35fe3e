//! Ctrl-C and SIGTERM.

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

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
