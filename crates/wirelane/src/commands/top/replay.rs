//! Reads a recording: where its lines are at first, a frame when it is wanted.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use doctor::watch::Frame;

use super::record::{FORMAT, Header};
use crate::output::Failure;

/// A recording's frames.
#[derive(Debug)]
pub(super) struct Replay {
    file: File,
    path: PathBuf,
    /// Where each frame's line begins, and its length.
    lines: Vec<(u64, usize)>,
}

impl Replay {
    /// Finds the lines, and reads the first. A last line without an end was cut off while it was written: it is left out.
    pub(super) fn open(path: &Path) -> Result<Replay, Failure> {
        let wrong = |why: String| Failure::failed(format!("replay {}: {why}", path.display()));
        // Opening a pipe would wait for its writer.
        let kind = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
        if !kind.is_file() {
            return Err(wrong("it is no regular file".to_owned()));
        }
        let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
        let mut lines = index(&file).map_err(wrong)?;
        if lines.is_empty() {
            return Err(wrong(format!("it is empty, and no recording (`{FORMAT}`)")));
        }
        let (_, length) = lines.remove(0);
        check_header(&file, length).map_err(wrong)?;
        if lines.is_empty() {
            return Err(wrong("it has no frame".to_owned()));
        }
        Ok(Replay { file, path: path.to_owned(), lines })
    }

    /// How many frames there are.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// A frame by its number, from 0.
    pub(super) fn frame(&mut self, number: usize) -> Result<Frame, Failure> {
        let (start, length) = self.lines[number];
        let read = read(&self.file, start, length);
        let frame = read.and_then(|bytes| {
            serde_json::from_slice(&bytes).map_err(|error| format!("it is no frame: {error}"))
        });
        // The header is line 1.
        let (path, line) = (self.path.display(), number + 2);
        frame.map_err(|why| Failure::failed(format!("replay {path}: line {line}: {why}")))
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
        if length > LONGEST_LINE {
            return Err(format!("line {}: it is longer than 16 MiB", lines.len() + 1));
        }
        if end.is_some() {
            if lines.len() > MAX_FRAMES {
                return Err(format!("it has more than {MAX_FRAMES} frames"));
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
    let no = |why: &dyn std::fmt::Display| {
        format!("line 1: {why}; a recording of `wirelane top` begins with its format, `{FORMAT}`")
    };
    let header: Header = serde_json::from_slice(&bytes).map_err(|error| no(&error))?;
    match header.format.as_str() {
        FORMAT => Ok(()),
        other => Err(no(&format!("its format is {:?}", doctor::one_line(other)))),
    }
}

fn read(mut file: &File, start: u64, length: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; length];
    let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| error.to_string())
}

/// A machine with a thousand functions has frames of some megabytes.
const LONGEST_LINE: usize = 16 << 20;
/// Eleven days of seconds.
const MAX_FRAMES: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn open(content: &[u8]) -> Result<Replay, String> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        std::io::Write::write_all(&mut file, content).expect("written");
        Replay::open(file.path()).map_err(|failure| failure.to_string())
    }

    const HEADER: &str = "{\"format\":\"wirelane frames 1\",\"host\":null,\"start_ms\":1}\n";

    #[test]
    fn frames_are_read_in_any_order_and_a_torn_last_line_is_left_out() {
        let text = format!("{HEADER}{{\"at_ms\":1}}\n{{\"at_ms\":2}}\n{{\"at_m");
        let mut replay = open(text.as_bytes()).expect("a recording");
        assert_eq!(replay.len(), 2);
        assert_eq!(replay.frame(1).expect("a frame").at_ms, 2);
        assert_eq!(replay.frame(0).expect("a frame").at_ms, 1);
    }

    #[test]
    fn what_is_no_recording_is_refused_with_the_line() {
        for (content, words) in [
            (String::new(), "empty"),
            ("hello\n".to_owned(), "line 1"),
            ("{\"format\":\"other\",\"start_ms\":0}\n".to_owned(), "other"),
            (HEADER.to_owned(), "no frame"),
            (format!("{HEADER}{}", "x".repeat(LONGEST_LINE + 1)), "line 2: it is longer"),
        ] {
            let why = open(content.as_bytes()).expect_err("refused");
            assert!(why.contains(words), "`{words}` is missing in: {why}");
        }
        let text = format!("{HEADER}{{\"at_ms\":1}}\n{{\"at_ms\":\"x\"}}\n");
        let mut replay = open(text.as_bytes()).expect("a recording");
        let why = replay.frame(1).expect_err("no frame").to_string();
        assert!(why.contains("line 3"), "{why}");
    }

    #[test]
    fn a_folder_or_a_pipe_is_no_recording() {
        assert!(Replay::open(Path::new("/tmp")).is_err());
        assert!(Replay::open(Path::new("/dev/null")).is_err());
    }
}
