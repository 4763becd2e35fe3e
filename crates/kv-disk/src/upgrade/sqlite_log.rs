//! Checks the log (WAL) of a database of an earlier format before SQLite reads it.
//!
//! SQLite silently treats the first invalid frame as the end of the log. At the end that is right:
//! a truncated commit was never acknowledged. In the middle it would lose acknowledged commits after it.
//! Every commit is synced before the next starts, so after a truncated commit there is at most its own end: if two
//! commits follow an invalid frame, the log is damaged. Damage in the last commit looks the same as truncation.
//!
//! The format is section 4 of SQLite's file format.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind};

/// Refuses a log that has lost acknowledged commits.
pub(crate) fn check(database: &Path) -> Result<(), Error> {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    let log = PathBuf::from(log);
    let call = format!("open {}", log.display());
    let verdict = File::open(&log).and_then(|file| {
        let length = file.metadata()?.len();
        // The process died just after it created the file.
        if length < HEADER_BYTES as u64 {
            return Ok(LogCheck::Sound);
        }
        // SQLite would treat the database as new, and remove the log.
        if database.metadata().map_or(0, |database| database.len()) == 0 {
            return Ok(LogCheck::NoDatabase);
        }
        scan(BufReader::with_capacity(1 << 20, file), length)
    });
    let lost = match verdict {
        Ok(LogCheck::Sound) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let fix = "check its owner, and `dmesg` for disk errors";
            return Err(Error::new(ErrorKind::Failed, format!("{call}: {error} — {fix}")));
        }
        Ok(LogCheck::NoDatabase) => "its database is empty or missing".to_owned(),
        Ok(LogCheck::BadHeader) => "its header is damaged, and data follows it".to_owned(),
        Ok(LogCheck::BadFrame { at }) => format!("damaged at byte {at}, before its end"),
    };
    let fix = "nothing was changed. With the version that wrote it, save what is still readable with `wirelane kv backup \
               DIR FILE`, restore that into a new directory with `wirelane kv restore FILE DIR`, or restore an older backup";
    let text = format!("{call}: {lost}; acknowledged writes are lost — {fix}");
    Err(Error::new(ErrorKind::Damaged, text))
}

enum LogCheck {
    Sound,
    /// The database is missing or empty.
    NoDatabase,
    /// The header is damaged, so that the frames cannot be checked.
    BadHeader,
    /// The frame at this byte is invalid, and commits follow it.
    BadFrame {
        at: u64,
    },
}

fn scan(mut log: impl Read, length: u64) -> io::Result<LogCheck> {
    let mut header = [0; HEADER_BYTES];
    log.read_exact(&mut header)?;
    let Some((page, mut sum)) = read_header(&header) else {
        // The header is synced before anything is written after it.
        let alone = length < (HEADER_BYTES + FRAME_HEADER_BYTES + MIN_PAGE_BYTES) as u64;
        return Ok(if alone { LogCheck::Sound } else { LogCheck::BadHeader });
    };
    let mut frame = vec![0; FRAME_HEADER_BYTES + page];
    let (mut broken, mut commits) = (None, 0);
    for number in 0..(length - HEADER_BYTES as u64) / frame.len() as u64 {
        log.read_exact(&mut frame)?;
        // Frames from before the log was last restarted have other salts.
        let is_current = frame[8..16] == header[16..24];
        if broken.is_none() {
            let next = sum.with(&frame[..8]).with(&frame[FRAME_HEADER_BYTES..]);
            if is_current && next.is(&frame[16..24]) {
                sum = next;
                continue;
            }
            broken = Some(HEADER_BYTES as u64 + number * frame.len() as u64);
        }
        let is_commit = frame[4..8] != [0; 4];
        commits += u32::from(is_current && is_commit);
        if let (Some(at), 2..) = (broken, commits) {
            return Ok(LogCheck::BadFrame { at });
        }
    }
    Ok(LogCheck::Sound)
}

/// The page size, and the checksum that the frames continue; `None` if the header is damaged.
fn read_header(header: &[u8; HEADER_BYTES]) -> Option<(usize, Sum)> {
    let word = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let big = match word(0) {
        0x377f_0682 => false,
        0x377f_0683 => true,
        _ => return None,
    };
    let sum = Sum { words: [0; 2], big }.with(&header[..24]);
    let page = word(8) as usize;
    let possible = page.is_power_of_two() && (MIN_PAGE_BYTES..=65_536).contains(&page);
    (possible && sum.is(&header[24..])).then_some((page, sum))
}

/// SQLite's checksum, cumulative over the frames.
#[derive(Clone, Copy)]
struct Sum {
    words: [u32; 2],
    /// Whether words are read as big-endian.
    big: bool,
}

impl Sum {
    fn with(mut self, bytes: &[u8]) -> Self {
        let (pairs, _) = bytes.as_chunks::<8>();
        for [a, b, c, d, e, f, g, h] in pairs {
            let read = if self.big { u32::from_be_bytes } else { u32::from_le_bytes };
            let [first, second] = [read([*a, *b, *c, *d]), read([*e, *f, *g, *h])];
            self.words[0] = self.words[0].wrapping_add(first).wrapping_add(self.words[1]);
            self.words[1] = self.words[1].wrapping_add(second).wrapping_add(self.words[0]);
        }
        self
    }

    fn is(&self, stored: &[u8]) -> bool {
        let [first, second] = self.words.map(u32::to_be_bytes);
        stored[..4] == first && stored[4..] == second
    }
}

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const MIN_PAGE_BYTES: usize = 512;
