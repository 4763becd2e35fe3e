//! A log that nobody waits for. When too many lines wait to be read, more are dropped and counted, and the count is logged as
//! soon as something is read again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use crate::output::write_queue::WriteQueue;

#[derive(Clone)]
pub(crate) struct BackgroundLog {
    lines: WriteQueue<Vec<u8>>,
    lost: Arc<AtomicU64>,
}

impl BackgroundLog {
    pub(super) fn open() -> io::Result<Self> {
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        let write = move |line: Vec<u8>| {
            // Nobody is left to tell when it is gone.
            let _ = io::stderr().write_all(&line);
            let lost = counted.swap(0, Relaxed);
            if lost > 0 {
                tracing::warn!(lost, "lines of this log were dropped, since it was not read");
            }
        };
        Ok(BackgroundLog { lines: WriteQueue::open("wirelane-log-out", write)?, lost })
    }

    /// Waits until everything is written that was logged, but not long.
    pub(crate) fn flush(&self) {
        self.lines.flush(PATIENCE);
    }
}

/// One line comes in one piece, as tracing writes it.
impl Write for &BackgroundLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.put(line.to_vec()).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for BackgroundLog {
    type Writer = &'w BackgroundLog;

    fn make_writer(&'w self) -> &'w BackgroundLog {
        self
    }
}

/// How long the end waits for the last lines.
const PATIENCE: Duration = Duration::from_secs(1);
