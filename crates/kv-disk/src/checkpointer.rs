//! Checkpoints the log into the database in the background, so that saves need not wait for it.

use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::error::{Error, ErrorKind};
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
                // What cannot be checkpointed now stays in the log, where it is safe.
                let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            }
        };
        let thread = std::thread::Builder::new().name("wirelane-log".to_owned()).spawn(work);
        let thread = thread.map_err(|error| {
            Error::new(
                ErrorKind::Failed,
                format!("start the checkpoint thread: {error} — raise `ulimit -u`"),
            )
        })?;
        Ok(Checkpointer { nudges: Some(nudges), thread: Some(thread) })
    }

    /// Requests a checkpoint; does nothing if one is requested already.
    pub(crate) fn request(&self) {
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
