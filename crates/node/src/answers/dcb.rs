//! Flow control per priority, as DCB netlink tells it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A net device's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dcb {
    /// Priorities with pause frames of their own (PFC), one bit each.
    pub pfc_enabled: Option<u8>,
    /// How many priorities can have them.
    pub pfc_capacity: Option<u8>,
    /// What a packet's priority is told by: `pcp` or `dscp`.
    pub trust: Option<String>,
    /// Priorities by DSCP, where the table tells.
    pub dscp_to_priority: BTreeMap<u8, u8>,
}

pub(super) fn ask() -> Option<BTreeMap<String, Dcb>> {
    None
}
