//! Writes the log back into the database on the side, so that whoever saves need not wait for it.

use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::error::{Error, Kind};
use crate::schema;

/// A thread with a connection of its own.
pub(crate) struct Checkpointer {
    nudges: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(path: &Path) -> Result<Self, Error> {
        let connection = schema::open_writer(path)?;
        let (nudges, nudged) = sync_channel(1);
        let work = move || {
            while nudged.recv().is_ok() {
                // What cannot be written back now stays in the log, where it is safe.
                let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            }
        };
        let thread = std::thread::Builder::new().name("wirelane-log".to_owned()).spawn(work);
        let thread = thread.map_err(|error| {
            Error::new(
                Kind::Failed,
                format!("start a thread for the disk: {error} — see `ulimit -u`"),
            )
        })?;
        Ok(Checkpointer { nudges: Some(nudges), thread: Some(thread) })
    }

    /// There is something to write back. Whoever is at it already goes on.
    pub(crate) fn nudge(&self) {
        if let Some(nudges) = &self.nudges {
            let _ = nudges.try_send(());
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.nudges = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
