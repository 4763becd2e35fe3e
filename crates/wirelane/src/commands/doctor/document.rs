//! The JSON output of the doctor; `docs/doctor.md` has an example.

use doctor::checklist::Item;
use doctor::since::Comparison;
use doctor::{Check, FindingsReport, SeverityCounts};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// The report and its optional parts.
pub(super) struct Document<'d> {
    pub(super) report: &'d FindingsReport,
    pub(super) peer: Option<Peer>,
    pub(super) since: Option<Comparison>,
    pub(super) checklist: Option<Vec<Item>>,
}

/// The host of --peer.
#[derive(Debug, Serialize)]
pub(super) struct Peer {
    pub(super) name: String,
    /// The summary of its own report.
    pub(super) summary: String,
    pub(super) counts: SeverityCounts,
}

/// A check in `--list`.
#[derive(Debug, Serialize)]
pub(super) struct CheckRow {
    name: &'static str,
    title: &'static str,
    why: &'static str,
}

impl CheckRow {
    pub(super) fn of(check: &Check) -> Self {
        CheckRow { name: check.name, title: check.title, why: check.why }
    }
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let FindingsReport { host, devices, counts, findings } = self.report;
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
