//! Checks the index, the log and the checksum of every value.

use std::path::Path;

use crate::error::Error;
use crate::metadata::Metadata;
use crate::reader::Sink;
use crate::snapshot::Snapshot;

/// The result of a check.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// The number of sound values.
    pub sound: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Keys whose values are damaged.
    pub damaged: Vec<Box<[u8]>>,
    /// Errors in the index and the log.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Whether there is no damage.
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.problems.is_empty()
    }
}

/// Checks a directory, also while a store uses it. `progress` receives the number of values checked and the total.
pub fn check(directory: &Path, mut progress: impl FnMut(u64, u64)) -> Result<CheckReport, Error> {
    let snapshot = Snapshot::open(directory, "check")?;
    let mut report = CheckReport { problems: snapshot.problems()?, ..CheckReport::default() };
    report.problems.extend(snapshot.damage.iter().map(|damage| damage.to_string()));
    let (total, mut buffer) = (snapshot.values(), Vec::new());
    let read = snapshot.rows(|key, row| {
        match row.and_then(|row| snapshot.read(key, &row, &mut buffer, &mut Discard).map(|()| row))
        {
            Ok(row) => {
                report.sound += 1;
                report.bytes += row.metadata.length;
            }
            Err(_) => report.damaged.push(key.into()),
        }
        let done = report.sound + report.damaged.len() as u64;
        progress(done, total.max(done));
        Ok(())
    });
    if let Err(error) = read {
        // The rows after it cannot be reached.
        report.problems.push(format!("cannot read all values: {error}"));
    }
    Ok(report)
}

/// Verifies a value, and keeps none of it.
pub(crate) struct Discard;

impl Sink for Discard {
    fn begin(&mut self, _: &Metadata) -> bool {
        true
    }
    fn bytes(&mut self, _: u64, _: &[u8]) {}
}
