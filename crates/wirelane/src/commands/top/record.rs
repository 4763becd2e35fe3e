//! Records samples to a file: a header line, then one line of JSON per sample.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use doctor::monitoring::MachineSample;
use serde::{Deserialize, Serialize};

use crate::arguments::size;
use crate::output::Failure;

/// The file's first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) host: Option<String>,
    /// Start time, in milliseconds since 1970.
    pub(super) start_ms: u64,
}

/// A recording in progress.
#[derive(Debug)]
pub(super) struct Recording {
    file: File,
    path: PathBuf,
    bytes: u64,
    max_bytes: u64,
    has_header: bool,
}

impl Recording {
    /// Records to a new file, up to `max_bytes`. An existing file is never overwritten.
    pub(super) fn create(path: &Path, max_bytes: u64) -> Result<Recording, Failure> {
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| {
            let path = path.display();
            match error.kind() {
                std::io::ErrorKind::AlreadyExists => {
                    Failure::failed(format!("record to {path}: file exists — choose another name"))
                }
                _ => Failure::failed(format!("record to {path}: {error}")),
            }
        })?;
        Ok(Recording { file, path: path.to_owned(), bytes: 0, max_bytes, has_header: false })
    }

    /// Adds a sample. An error ends the recording, and is its message; the file keeps whole lines.
    pub(super) fn add(&mut self, sample: &MachineSample) -> Result<(), String> {
        if !self.has_header {
            let header = Header {
                format: FORMAT.to_owned(),
                host: sample.host.clone(),
                start_ms: sample.at_ms,
            };
            self.line(&header)?;
            self.has_header = true;
        }
        self.line(sample)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), String> {
        let stopped = |why: &dyn std::fmt::Display| {
            format!("recording to {} stopped: {why}", self.path.display())
        };
        let mut line = serde_json::to_vec(value).map_err(|error| stopped(&error))?;
        line.push(b'\n');
        if self.bytes + line.len() as u64 > self.max_bytes {
            let limit = size::format(self.max_bytes as usize);
            return Err(stopped(&format!("limit of {limit} reached (--record-max)")));
        }
        if let Err(error) = self.file.write_all(&line) {
            let message = stopped(&error);
            // Remove the partial line; if that fails, readers skip it.
            let _ = self.file.set_len(self.bytes);
            return Err(message);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }
}

/// The format in the header.
pub(super) const FORMAT: &str = "wirelane samples 1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_stops_at_its_limit_with_a_message_and_whole_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("samples");
        let mut recording = Recording::create(&path, 4096).expect("a file");
        let sample =
            MachineSample { host: Some("h".to_owned()), at_ms: 5, ..MachineSample::default() };
        let why = (0..1000).find_map(|_| recording.add(&sample).err()).expect("an end");
        assert!(why.contains("--record-max") && why.contains("4 KiB"), "{why}");
        let text = std::fs::read_to_string(&path).expect("a file");
        assert_eq!(text.len() as u64, recording.bytes());
        assert!(text.ends_with("}\n"), "{text}");
        assert!(text.starts_with(r#"{"format":"wirelane samples 1","host":"h","start_ms":5}"#));
        assert!(Recording::create(&path, 1).is_err(), "an existing file is not overwritten");
    }

    #[test]
    fn a_full_disk_stops_a_recording_with_a_message() {
        let file = OpenOptions::new().write(true).open("/dev/full").expect("a full disk");
        let path = PathBuf::from("/dev/full");
        let mut recording =
            Recording { file, path, bytes: 0, max_bytes: 1 << 20, has_header: false };
        let why = recording.add(&MachineSample::default()).expect_err("no space");
        assert!(why.contains("/dev/full") && why.contains("space"), "{why}");
    }
}
