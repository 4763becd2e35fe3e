//! Ctrl-C ends a capture, and its file is whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::Failure;
use crate::signals::Signals;

/// Whether somebody wants the end.
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on a signal does not end the process, but is told here.
    pub(super) fn on_signals() -> Result<Stop, Failure> {
        let failed =
            |error: std::io::Error| Failure::failed(format!("listen for signals: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let mut signals = {
            let _entered = runtime.enter();
            Signals::new()?
        };
        let wanted = Arc::new(AtomicBool::new(false));
        let told = wanted.clone();
        let thread = std::thread::Builder::new().name("wirelane-signals".to_owned());
        // It waits for ever, and ends with the process.
        thread
            .spawn(move || {
                runtime.block_on(signals.next());
                told.store(true, Ordering::Relaxed);
            })
            .map_err(failed)?;
        Ok(Stop(wanted))
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
