//! Ctrl-C stops a capture, and its file is complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::output::Failure;
use crate::signals;

/// Whether a signal was received.
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Handles signals from now on, instead of ending the process.
    pub(super) fn on_signals() -> Result<Stop, Failure> {
        let requested = Arc::new(AtomicBool::new(false));
        let flag = requested.clone();
        signals::on_first_signal(move || flag.store(true, Ordering::Relaxed))?;
        Ok(Stop(requested))
    }

    pub(super) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
