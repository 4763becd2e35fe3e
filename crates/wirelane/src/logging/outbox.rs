//! Log lines on their way to stderr. A thread of its own writes them: whoever logs never waits for who reads, who may be a
//! pipe that nobody empties. When too many lines wait, more are dropped and counted, and the count is logged as soon as
//! something is read again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone)]
pub(crate) struct Outbox {
    letters: SyncSender<Letter>,
    lost: Arc<AtomicU64>,
}

enum Letter {
    Line(Vec<u8>),
    /// Whoever sent it wants to know when all before it is written.
    Mark(SyncSender<()>),
}

impl Outbox {
    pub(super) fn open() -> io::Result<Self> {
        let (letters, to_write) = sync_channel(MOST);
        let outbox = Outbox { letters, lost: Arc::default() };
        let lost = outbox.lost.clone();
        let thread = std::thread::Builder::new().name("wirelane-log-out".to_owned());
        thread.spawn(move || write(&to_write, &lost, &mut io::stderr()))?;
        Ok(outbox)
    }

    /// Waits until everything is written that was logged before, but not long.
    pub(crate) fn flush(&self) {
        let (tell, told) = sync_channel(1);
        if self.letters.try_send(Letter::Mark(tell)).is_ok() {
            let _ = told.recv_timeout(PATIENCE);
        }
    }
}

fn write(letters: &Receiver<Letter>, lost: &AtomicU64, to: &mut impl Write) {
    while let Ok(letter) = letters.recv() {
        match letter {
            // Nobody is left to tell when it is gone.
            Letter::Line(line) => _ = to.write_all(&line),
            Letter::Mark(mark) => _ = mark.try_send(()),
        }
        let lost = lost.swap(0, Relaxed);
        if lost > 0 {
            tracing::warn!(lost, "lines of this log were dropped, since it was not read");
        }
    }
}

/// One line comes in one piece, as tracing writes it.
impl Write for &Outbox {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.letters.try_send(Letter::Line(line.to_vec())) {
            self.lost.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Outbox {
    type Writer = &'w Outbox;

    fn make_writer(&'w self) -> &'w Outbox {
        self
    }
}

/// How many lines may wait.
const MOST: usize = 4096;
/// How long the end waits for the last lines.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_logs_never_waits_and_what_fits_is_written_in_order() {
        let (letters, to_write) = sync_channel(2);
        let outbox = Outbox { letters, lost: Arc::default() };
        for line in [&b"one\n"[..], b"two\n", b"three\n", b"four\n"] {
            outbox.make_writer().write_all(line).unwrap();
        }
        assert_eq!(outbox.lost.load(Relaxed), 2);
        let lost = outbox.lost.clone();
        drop(outbox);
        let mut written = Vec::new();
        write(&to_write, &lost, &mut written);
        assert_eq!(written, b"one\ntwo\n");
        assert_eq!(lost.load(Relaxed), 0, "it was told");
    }
}
