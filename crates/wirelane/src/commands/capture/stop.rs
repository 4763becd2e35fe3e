//! Ctrl-C ends a capture, and its file is whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::output::Failure;
use crate::signals;

/// Whether somebody wants the end.
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on a signal does not end the process, but is told here.
    pub(super) fn on_signals() -> Result<Stop, Failure> {
        let wanted = Arc::new(AtomicBool::new(false));
        let told = wanted.clone();
        signals::on_first_signal(move || told.store(true, Ordering::Relaxed))?;
        Ok(Stop(wanted))
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
