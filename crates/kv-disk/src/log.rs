//! The log that an earlier process left, looked at before SQLite reads it.
//!
//! SQLite takes the first frame that does not fit for the end of the log, and does not say so. At the end that is right:
//! a commit that was cut off was never acknowledged. In the middle it would lose all that was acknowledged after it.
//! Every commit is synced before the next begins, so behind what was cut off there is at most its own end: where two
//! commits lie behind a frame that does not fit, it is damaged. Damage in the last commit cannot be told from a cut.
//!
//! The format is section 4 of SQLite's file format.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind};

/// Refuses a log in which more is lost than what was never acknowledged.
pub(crate) fn examine(database: &Path) -> Result<(), Error> {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    let log = PathBuf::from(log);
    let call = format!("open {}", log.display());
    let verdict = File::open(&log).and_then(|file| {
        let length = file.metadata()?.len();
        // A process that died when it had just made it.
        if length < HEAD as u64 {
            return Ok(Verdict::Sound);
        }
        // SQLite would take the database for new, and remove the log.
        if database.metadata().map_or(0, |database| database.len()) == 0 {
            return Ok(Verdict::Orphaned);
        }
        judge(BufReader::with_capacity(1 << 20, file), length)
    });
    let lost = match verdict {
        Ok(Verdict::Sound) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let fix = "see who owns it, and the kernel's log for faults of the disk";
            return Err(Error::new(Kind::Failed, format!("{call}: {error} — {fix}")));
        }
        Ok(Verdict::Orphaned) => "the database it belongs to is empty or gone".to_owned(),
        Ok(Verdict::Headless) => "its head is damaged, and there is something behind it".to_owned(),
        Ok(Verdict::Broken { at }) => format!("it is damaged at byte {at}, and not at its end"),
    };
    let fix = "nothing was changed. `wirelane kv backup DIR FILE` saves what can still be read, `wirelane kv \
                  restore FILE DIR` makes a new directory of it; or restore an older backup";
    let text = format!("{call}: {lost}, so that writes which were acknowledged are lost — {fix}");
    Err(Error::new(Kind::Damaged, text))
}

enum Verdict {
    Sound,
    /// The database is not there.
    Orphaned,
    /// Nobody can tell what the frames are.
    Headless,
    /// At this byte, with commits behind it.
    Broken {
        at: u64,
    },
}

fn judge(mut log: impl Read, length: u64) -> io::Result<Verdict> {
    let mut head = [0; HEAD];
    log.read_exact(&mut head)?;
    let Some((page, mut sum)) = read_head(&head) else {
        // Its head is synced before anything is written behind it.
        let alone = length < (HEAD + FRAME + MIN_PAGE) as u64;
        return Ok(if alone { Verdict::Sound } else { Verdict::Headless });
    };
    let mut frame = vec![0; FRAME + page];
    let (mut broken, mut commits) = (None, 0);
    for number in 0..(length - HEAD as u64) / frame.len() as u64 {
        log.read_exact(&mut frame)?;
        // Those of an earlier round have other salts.
        let is_of_this_round = frame[8..16] == head[16..24];
        if broken.is_none() {
            let next = sum.with(&frame[..8]).with(&frame[FRAME..]);
            if is_of_this_round && next.is(&frame[16..24]) {
                sum = next;
                continue;
            }
            broken = Some(HEAD as u64 + number * frame.len() as u64);
        }
        let is_commit = frame[4..8] != [0; 4];
        commits += u32::from(is_of_this_round && is_commit);
        if let (Some(at), 2..) = (broken, commits) {
            return Ok(Verdict::Broken { at });
        }
    }
    Ok(Verdict::Sound)
}

/// The length of a page, and the sum with which the frames go on; `None` if it is damaged.
fn read_head(head: &[u8; HEAD]) -> Option<(usize, Sum)> {
    let word = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let big = match word(0) {
        0x377f_0682 => false,
        0x377f_0683 => true,
        _ => return None,
    };
    let sum = Sum { words: [0; 2], big }.with(&head[..24]);
    let page = word(8) as usize;
    let possible = page.is_power_of_two() && (MIN_PAGE..=65_536).contains(&page);
    (possible && sum.is(&head[24..])).then_some((page, sum))
}

/// SQLite's checksum, which goes on from frame to frame.
#[derive(Clone, Copy)]
struct Sum {
    words: [u32; 2],
    /// Whether bytes are taken as words with the most significant one first.
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

const HEAD: usize = 32;
/// What stands before a page.
const FRAME: usize = 24;
const MIN_PAGE: usize = 512;
