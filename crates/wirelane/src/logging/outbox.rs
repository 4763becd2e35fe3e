//! Log lines on their way to stderr. A thread of its own writes them: whoever logs never waits for who reads, who may be a
//! pipe that nobody empties. When too many lines wait, more are dropped and counted, and the count is logged as soon as
//! something is read again.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// By a lock and not by a channel: a thread that waits for a channel the first time asks the dynamic linker for something,
/// and a library that hangs while it is loaded holds that one's lock.
#[derive(Clone, Default)]
pub(crate) struct Outbox(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// For the thread that writes: there is something to do.
    filled: Condvar,
    /// For who waits for the end: all is written.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// One has been taken out and is not written yet.
    writing: bool,
    lost: u64,
}

impl Outbox {
    pub(super) fn open() -> io::Result<Self> {
        let outbox = Outbox::default();
        let shared = outbox.0.clone();
        let thread = std::thread::Builder::new().name("wirelane-log-out".to_owned());
        thread.spawn(move || {
            loop {
                shared.write_one(&mut io::stderr());
            }
        })?;
        Ok(outbox)
    }

    /// Waits until everything is written that was logged, but not long.
    pub(crate) fn flush(&self) {
        let busy = |state: &mut State| state.writing || !state.lines.is_empty();
        drop(self.0.emptied.wait_timeout_while(self.0.lock(), PATIENCE, busy));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a line and writes it.
    fn write_one(&self, to: &mut impl Write) {
        let empty = |state: &mut State| state.lines.is_empty();
        let mut state =
            self.filled.wait_while(self.lock(), empty).unwrap_or_else(PoisonError::into_inner);
        let line = state.lines.pop_front().unwrap_or_default();
        let lost = std::mem::take(&mut state.lost);
        state.writing = true;
        drop(state);
        // Nobody is left to tell when it is gone.
        let _ = to.write_all(&line);
        if lost > 0 {
            tracing::warn!(lost, "lines of this log were dropped, since it was not read");
        }
        let mut state = self.lock();
        state.writing = false;
        self.emptied.notify_all();
    }
}

/// One line comes in one piece, as tracing writes it.
impl Write for &Outbox {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        if state.lines.len() < MOST {
            state.lines.push_back(line.to_vec());
            self.0.filled.notify_one();
        } else {
            state.lost += 1;
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
        let outbox = Outbox::default();
        for number in 0..MOST + 2 {
            outbox.make_writer().write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        assert_eq!(outbox.0.lock().lost, 2);
        let mut written = Vec::new();
        outbox.0.write_one(&mut written);
        outbox.0.write_one(&mut written);
        assert_eq!(written, b"0\n1\n");
        assert_eq!(outbox.0.lock().lost, 0, "it was told");
    }

    #[test]
    fn the_end_waits_until_the_last_line_is_written() {
        let outbox = Outbox::default();
        outbox.make_writer().write_all(b"the last\n").unwrap();
        let shared = outbox.0.clone();
        let writer = std::thread::spawn(move || {
            let mut written = Vec::new();
            shared.write_one(&mut written);
            written
        });
        outbox.flush();
        assert!(outbox.0.lock().lines.is_empty());
        assert_eq!(writer.join().unwrap(), b"the last\n");
    }
}
