//! Reads a recording: indexes its lines when opened, and reads single samples.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use doctor::monitoring::MachineSample;

use super::record::{FORMAT, Header};
use crate::output::Failure;

/// A recording's samples.
#[derive(Debug)]
pub(super) struct Replay {
    file: File,
    path: PathBuf,
    /// Offset and length of each sample's line.
    lines: Vec<(u64, usize)>,
}

impl Replay {
    /// Indexes the lines, and checks the header. A last line without a newline was cut off while it was written, and is
    /// skipped.
    pub(super) fn open(path: &Path) -> Result<Replay, Failure> {
        let wrong = |why: String| Failure::failed(format!("replay {}: {why}", path.display()));
        // Opening a pipe would block until it has a writer.
        let kind = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
        if !kind.is_file() {
            return Err(wrong("not a regular file".to_owned()));
        }
        let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
        let mut lines = index(&file).map_err(wrong)?;
        if lines.is_empty() {
            return Err(wrong(format!("the file is empty: not a recording (`{FORMAT}`)")));
        }
        let (_, length) = lines.remove(0);
        check_header(&file, length).map_err(wrong)?;
        if lines.is_empty() {
            return Err(wrong("the recording has no samples".to_owned()));
        }
        Ok(Replay { file, path: path.to_owned(), lines })
    }

    /// The number of samples.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// A sample by its number, from 0.
    pub(super) fn sample(&mut self, number: usize) -> Result<MachineSample, Failure> {
        let (start, length) = self.lines[number];
        let read = read(&self.file, start, length);
        let sample = read.and_then(|bytes| {
            serde_json::from_slice(&bytes).map_err(|error| format!("not a sample: {error}"))
        });
        // The header is line 1.
        let (path, line) = (self.path.display(), number + 2);
        sample.map_err(|why| Failure::failed(format!("replay {path}: line {line}: {why}")))
    }
}

fn index(file: &File) -> Result<Vec<(u64, usize)>, String> {
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut lines = Vec::new();
    let (mut start, mut length) = (0_u64, 0_usize);
    loop {
        let part = reader.fill_buf().map_err(|error| error.to_string())?;
        if part.is_empty() {
            return Ok(lines);
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(part.len(), |end| end + 1);
        length += taken;
        if length > MAX_LINE_BYTES {
            return Err(format!("line {}: longer than 16 MiB", lines.len() + 1));
        }
        if end.is_some() {
            if lines.len() > MAX_SAMPLES {
                return Err(format!("more than {MAX_SAMPLES} samples"));
            }
            lines.push((start, length));
            start += length as u64;
            length = 0;
        }
        reader.consume(taken);
    }
}

fn check_header(file: &File, length: usize) -> Result<(), String> {
    let bytes = read(file, 0, length)?;
    let invalid = |why: &dyn std::fmt::Display| {
        format!("line 1: {why}; a recording of `wirelane top` starts with its format, `{FORMAT}`")
    };
    let header: Header = serde_json::from_slice(&bytes).map_err(|error| invalid(&error))?;
    match header.format.as_str() {
        FORMAT => Ok(()),
        other => Err(invalid(&format!("its format is {:?}", doctor::one_line(other)))),
    }
}

fn read(mut file: &File, start: u64, length: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; length];
    let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| error.to_string())
}

/// Samples of a machine with a thousand virtual functions have a few megabytes.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Eleven days at one sample per second.
const MAX_SAMPLES: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn open(content: &[u8]) -> Result<Replay, String> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        std::io::Write::write_all(&mut file, content).expect("written");
        Replay::open(file.path()).map_err(|failure| failure.to_string())
    }

    const HEADER: &str = "{\"format\":\"wirelane samples 1\",\"host\":null,\"start_ms\":1}\n";

    #[test]
    fn samples_are_read_in_any_order_and_a_partial_last_line_is_skipped() {
        let text = format!("{HEADER}{{\"at_ms\":1}}\n{{\"at_ms\":2}}\n{{\"at_m");
        let mut replay = open(text.as_bytes()).expect("a recording");
        assert_eq!(replay.len(), 2);
        assert_eq!(replay.sample(1).expect("a sample").at_ms, 2);
        assert_eq!(replay.sample(0).expect("a sample").at_ms, 1);
    }

    #[test]
    fn an_invalid_recording_is_refused_with_its_line() {
        for (content, words) in [
            (String::new(), "empty"),
            ("hello\n".to_owned(), "line 1"),
            ("{\"format\":\"other\",\"start_ms\":0}\n".to_owned(), "other"),
            (HEADER.to_owned(), "no samples"),
            (format!("{HEADER}{}", "x".repeat(MAX_LINE_BYTES + 1)), "line 2: longer"),
        ] {
            let why = open(content.as_bytes()).expect_err("refused");
            assert!(why.contains(words), "`{words}` is missing in: {why}");
        }
        let text = format!("{HEADER}{{\"at_ms\":1}}\n{{\"at_ms\":\"x\"}}\n");
        let mut replay = open(text.as_bytes()).expect("a recording");
        let why = replay.sample(1).expect_err("no sample").to_string();
        assert!(why.contains("line 3"), "{why}");
    }

    #[test]
    fn a_directory_or_a_device_is_refused() {
        assert!(Replay::open(Path::new("/tmp")).is_err());
        assert!(Replay::open(Path::new("/dev/null")).is_err());
    }
}
