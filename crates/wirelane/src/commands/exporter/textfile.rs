//! A file that is always whole, for node_exporter's textfile collector.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use access::Phase;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::encoder::{Notifier, PATIENCE};

/// Writes it again and again.
#[derive(Debug)]
pub(super) struct TextFile {
    folder: PathBuf,
    encoder: Arc<Notifier>,
    errors: u64,
    /// Why it could not be written the last time: said once, not each time.
    trouble: Option<io::ErrorKind>,
}

impl TextFile {
    pub(super) fn new(folder: &Path, encoder: Arc<Notifier>) -> Self {
        TextFile { folder: folder.to_owned(), encoder, errors: 0, trouble: None }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// Until the end, which it does not hold up for longer than a file takes.
    pub(super) async fn write_until(mut self, every: Duration, mut life: watch::Receiver<Phase>) {
        remove_leftovers(&self.folder);
        loop {
            let next = Instant::now() + every;
            let written = spawn_blocking(move || {
                self.write();
                self
            });
            match written.await {
                Ok(file) => self = file,
                Err(error) => return tracing::error!(%error, "the text file is written no more"),
            }
            tokio::select! {
                () = sleep_until(next) => {}
                () = Phase::Stopping.reached(&mut life) => return,
            }
        }
    }

    fn write(&mut self) {
        let text = self.encoder.file(PATIENCE, self.errors);
        let outcome = replace(&self.folder, text.as_bytes());
        // Its words name a file that is called otherwise each time.
        let trouble = outcome.as_ref().err().map(io::Error::kind);
        self.errors += u64::from(trouble.is_some());
        if trouble == self.trouble {
            return;
        }
        let path = self.path();
        match &outcome {
            Err(error) => tracing::error!(
                %error,
                "cannot write {}; what stood there stays, and is tried again", path.display()
            ),
            Ok(()) => tracing::info!("{} is written again", path.display()),
        }
        self.trouble = trouble;
    }
}

/// Puts a whole file in place of the old one, which stays if that fails. Others must be able to read it.
fn replace(folder: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(PREFIX)
        .suffix(SUFFIX)
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    // The process's umask may have taken rights away.
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.persist(folder.join(NAME)).map_err(|error| error.error)?;
    Ok(())
}

/// What one that was killed in the middle of writing has left.
fn remove_leftovers(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let ours = |name: &str| name.starts_with(PREFIX) && name.ends_with(SUFFIX);
        if name.to_str().is_some_and(ours) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

const NAME: &str = "wirelane.prom";
/// Of a file that is not whole yet: node_exporter reads what ends in `.prom`.
const PREFIX: &str = ".wirelane-";
const SUFFIX: &str = ".tmp";
