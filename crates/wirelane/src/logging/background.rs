//! A log written by a background thread. If stderr is not read and too many lines are queued, more are dropped and counted,
//! and the count is logged as soon as stderr is read again.

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
            // There is no other place to report that stderr is gone.
            let _ = io::stderr().write_all(&line);
            let lost = counted.swap(0, Relaxed);
            if lost > 0 {
                tracing::warn!(lost, "log lines were dropped because stderr was not read");
            }
        };
        Ok(BackgroundLog { lines: WriteQueue::open("wirelane-log-out", write)?, lost })
    }

    /// Waits until all lines are written, for a short time.
    pub(crate) fn flush(&self) {
        self.lines.flush(FLUSH_TIMEOUT);
    }
}

/// tracing writes each line with one call.
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

/// How long the exit waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
