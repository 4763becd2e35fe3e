//! The file for node_exporter's textfile collector, replaced atomically.

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

use super::encoder::{DEFAULT_TIMEOUT, Encoder};

/// Writes the file periodically.
#[derive(Debug)]
pub(super) struct TextFile {
    folder: PathBuf,
    encoder: Arc<Encoder>,
    errors: u64,
    /// The error of the last write: logged only when it changes.
    last_error: Option<io::ErrorKind>,
}

impl TextFile {
    pub(super) fn new(folder: &Path, encoder: Arc<Encoder>) -> Self {
        TextFile { folder: folder.to_owned(), encoder, errors: 0, last_error: None }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// Writes until shutdown, which waits at most for one write.
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
                Err(error) => {
                    return tracing::error!(%error, "the text file is not written any more");
                }
            }
            tokio::select! {
                () = sleep_until(next) => {}
                () = Phase::Stopping.reached(&mut life) => return,
            }
        }
    }

    fn write(&mut self) {
        let text = self.encoder.file(DEFAULT_TIMEOUT, self.errors);
        let outcome = replace(&self.folder, text.as_bytes());
        // Compared by kind: the text has the name of a temporary file.
        let error_kind = outcome.as_ref().err().map(io::Error::kind);
        self.errors += u64::from(error_kind.is_some());
        if error_kind == self.last_error {
            return;
        }
        let path = self.path();
        match &outcome {
            Err(error) => tracing::error!(
                %error,
                "cannot write {}; the old file stays; retrying", path.display()
            ),
            Ok(()) => tracing::info!("{} is written again", path.display()),
        }
        self.last_error = error_kind;
    }
}

/// Replaces the file atomically; on errors the old one stays. Other users must be able to read it.
fn replace(folder: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(PREFIX)
        .suffix(SUFFIX)
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    // The umask may have removed permissions.
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.persist(folder.join(NAME)).map_err(|error| error.error)?;
    Ok(())
}

/// Removes temporary files of a process that was killed while writing.
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
/// Of the temporary file: node_exporter reads files that end in `.prom`.
const PREFIX: &str = ".wirelane-";
const SUFFIX: &str = ".tmp";
