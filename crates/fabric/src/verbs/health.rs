//! Whether an open port is usable now, or can become usable again: queries the device and reads its events.

use super::gid::{Gid, GidEntry};
use super::open_port::OpenPort;
use super::port::{Port, PortState};

impl OpenPort {
    /// Why this open device has failed permanently, or `None`.
    pub(super) fn broken(&self) -> Option<String> {
        self.events.read();
        let why = match self.pd.context().is_listed() {
            false => "was removed from this machine",
            true if self.events.failed() => "has failed (fatal device event)",
            true => return None,
        };
        Some(format!("{} {why}", self.choice.device))
    }

    /// Why lanes cannot be used now, or `None`. Temporary unless the device is broken.
    pub(super) fn problem(&self) -> Option<String> {
        self.broken().or_else(|| {
            let why =
                self.port_problem().or_else(|| self.gid_problem(self.choice.gid.as_ref()?))?;
            Some(format!("{} port {} {why}", self.choice.device, self.choice.port))
        })
    }

    fn port_problem(&self) -> Option<String> {
        match self.pd.context().port(self.choice.port) {
            Err(errno) => Some(format!("cannot be queried: {errno}")),
            Ok(attr) => match Port::new(self.choice.port, &attr, Vec::new()).state {
                PortState::Active => None,
                state => Some(format!("is {}", state.name())),
            },
        }
    }

    /// Peers use the GID, and queue pairs its index: both must still match.
    fn gid_problem(&self, entry: &GidEntry) -> Option<String> {
        let GidEntry { index, gid, .. } = entry;
        let current = self.pd.context().gid(self.choice.port, i32::try_from(*index).ok()?);
        match current.map(Gid) {
            Ok(now) if now == *gid => None,
            Ok(now) if !now.is_empty() => {
                Some(format!("has changed its GID {index} from {gid} to {now}"))
            }
            _ => Some(format!("has lost its address {gid}, GID {index}")),
        }
    }
}
