//! Keeps frames in a file: a line that says what it is, then a line of JSON for each frame.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use doctor::watch::Frame;
use serde::{Deserialize, Serialize};

use crate::arguments::size;
use crate::output::Failure;

/// The file's first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) host: Option<String>,
    /// When it begins, in milliseconds since 1970.
    pub(super) start_ms: u64,
}

/// A recording that grows.
#[derive(Debug)]
pub(super) struct Recording {
    file: File,
    path: PathBuf,
    bytes: u64,
    most: u64,
    begun: bool,
}

impl Recording {
    /// Into a new file, of so many bytes at most. What is there already is never overwritten.
    pub(super) fn create(path: &Path, most: u64) -> Result<Recording, Failure> {
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| {
            let shown = path.display();
            match error.kind() {
                std::io::ErrorKind::AlreadyExists => Failure::failed(format!(
                    "record to {shown}: it is there already — name another file"
                )),
                _ => Failure::failed(format!("record to {shown}: {error}")),
            }
        })?;
        Ok(Recording { file, path: path.to_owned(), bytes: 0, most, begun: false })
    }

    /// Adds a frame. An error is the end of the recording, in words; what is in the file stays whole.
    pub(super) fn add(&mut self, frame: &Frame) -> Result<(), String> {
        if !self.begun {
            let header = Header {
                format: FORMAT.to_owned(),
                host: frame.host.clone(),
                start_ms: frame.at_ms,
            };
            self.line(&header)?;
            self.begun = true;
        }
        self.line(frame)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How long it is.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), String> {
        let ended = |why: &dyn std::fmt::Display| {
            format!("recording to {} has ended: {why}", self.path.display())
        };
        let mut line = serde_json::to_vec(value).map_err(|error| ended(&error))?;
        line.push(b'\n');
        if self.bytes + line.len() as u64 > self.most {
            let most = size::format(self.most as usize);
            return Err(ended(&format!("it has {most}, the most it may (--record-max)")));
        }
        if let Err(error) = self.file.write_all(&line) {
            let words = ended(&error);
            // Half a line is of no use to anybody; if it cannot be taken off, readers leave it out.
            let _ = self.file.set_len(self.bytes);
            return Err(words);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }
}

/// What the file says it is.
pub(super) const FORMAT: &str = "wirelane frames 1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_ends_at_its_limit_with_words_and_whole_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("frames");
        let mut recording = Recording::create(&path, 4096).expect("a file");
        let frame = Frame { host: Some("h".to_owned()), at_ms: 5, ..Frame::default() };
        let why = (0..1000).find_map(|_| recording.add(&frame).err()).expect("an end");
        assert!(why.contains("--record-max") && why.contains("4 KiB"), "{why}");
        let text = std::fs::read_to_string(&path).expect("a file");
        assert_eq!(text.len() as u64, recording.bytes());
        assert!(text.ends_with("}\n"), "{text}");
        assert!(text.starts_with(r#"{"format":"wirelane frames 1","host":"h","start_ms":5}"#));
        assert!(Recording::create(&path, 1).is_err(), "what is there is kept");
    }

    #[test]
    fn a_full_disk_ends_a_recording_with_words() {
        let file = OpenOptions::new().write(true).open("/dev/full").expect("a full disk");
        let path = PathBuf::from("/dev/full");
        let mut recording = Recording { file, path, bytes: 0, most: 1 << 20, begun: false };
        let why = recording.add(&Frame::default()).expect_err("no space");
        assert!(why.contains("/dev/full") && why.contains("space"), "{why}");
    }
}
