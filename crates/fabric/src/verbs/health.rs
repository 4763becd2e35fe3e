//! Whether a rail can be used now, or at least again: the device is asked, its events are read.

use super::gid::{Gid, GidEntry};
use super::port::{Port, PortState};
use super::rail::Rail;

impl Rail {
    /// Why nothing will ever work again on this device as it was opened; the reason in words.
    pub(super) fn broken(&self) -> Option<String> {
        self.events.read();
        let why = match self.pd.context().is_listed() {
            _ if self.events.failed() => "has failed, or was taken away: the kernel says so",
            false => "is gone from this machine",
            true => return None,
        };
        Some(format!("{} {why}", self.choice.device))
    }

    /// Why nothing works now, which may pass unless the device is broken.
    pub(super) fn problem(&self) -> Option<String> {
        self.broken().or_else(|| {
            let why =
                self.port_problem().or_else(|| self.gid_problem(self.choice.gid.as_ref()?))?;
            Some(format!("{} port {} {why}", self.choice.device, self.choice.port))
        })
    }

    fn port_problem(&self) -> Option<String> {
        match self.pd.context().port(self.choice.port) {
            Err(errno) => Some(format!("cannot be asked: {errno}")),
            Ok(attr) => match Port::new(self.choice.port, &attr, Vec::new()).state {
                PortState::Active => None,
                state => Some(format!("is {}", state.name())),
            },
        }
    }

    /// Peers know the port by its address, and its queue pairs know that by its place.
    fn gid_problem(&self, entry: &GidEntry) -> Option<String> {
        let GidEntry { index, gid, .. } = entry;
        let asked = self.pd.context().gid(self.choice.port, i32::try_from(*index).ok()?);
        match asked.map(Gid) {
            Ok(now) if now == *gid => None,
            Ok(now) if !now.is_empty() => {
                Some(format!("has the address {now} as GID {index}, not {gid} any more"))
            }
            _ => Some(format!("has lost its address {gid}, GID {index}")),
        }
    }
}
