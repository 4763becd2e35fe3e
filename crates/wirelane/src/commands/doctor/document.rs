//! What the doctor prints as JSON; `docs/doctor.md` shows it by example.

use doctor::checklist::Item;
use doctor::since::Comparison;
use doctor::{Check, Counts, Report};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// All that was asked for.
pub(super) struct Document<'d> {
    pub(super) report: &'d Report,
    pub(super) peer: Option<Peer>,
    pub(super) since: Option<Comparison>,
    pub(super) checklist: Option<Vec<Item>>,
}

/// The other end.
#[derive(Debug, Serialize)]
pub(super) struct Peer {
    pub(super) name: String,
    /// What its own doctor says, in one line.
    pub(super) summary: String,
    pub(super) counts: Counts,
}

/// A check, as `--list` has it.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    name: &'static str,
    title: &'static str,
    why: &'static str,
}

impl Listed {
    pub(super) fn of(check: &Check) -> Self {
        Listed { name: check.name, title: check.title, why: check.why }
    }
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Report { host, devices, counts, findings } = self.report;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("format", "wirelane doctor 1")?;
        map.serialize_entry("host", host)?;
        map.serialize_entry("rdma", &!devices.is_empty())?;
        map.serialize_entry("devices", devices)?;
        map.serialize_entry("summary", &self.report.line())?;
        map.serialize_entry("counts", counts)?;
        map.serialize_entry("findings", findings)?;
        if let Some(peer) = &self.peer {
            map.serialize_entry("peer", peer)?;
        }
        if let Some(since) = &self.since {
            map.serialize_entry("since", since)?;
        }
        if let Some(checklist) = &self.checklist {
            map.serialize_entry("checklist", checklist)?;
        }
        map.end()
    }
}
