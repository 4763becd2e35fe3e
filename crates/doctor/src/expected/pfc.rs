//! A lossless priority for RoCE: priority flow control (PFC), with priorities from DSCP.

use node::queries::Dcb;

/// The priority that most fabrics use for RoCE.
pub const PRIORITY: u8 = 3;

/// The DSCP of that priority.
pub const DSCP: u8 = 26;

/// [`DSCP`] with ECN, as set for NCCL, UCX and rdma_cm.
pub const TRAFFIC_CLASS: u8 = DSCP << 2 | ECN;

/// What is missing, if something is.
pub fn missing(dcb: &Dcb) -> Option<&'static str> {
    let pfc = dcb.pfc_enabled.is_some_and(|enabled| enabled & 1 << PRIORITY != 0);
    let trust = dcb.trust.as_deref() == Some("dscp");
    match (pfc, trust) {
        (true, true) => None,
        (false, true) => Some("PFC is off for RoCE's priority"),
        (true, false) => Some("priorities do not follow DSCP"),
        (false, false) => Some("PFC is off for RoCE's priority, and priorities do not follow DSCP"),
    }
}

/// ECN-capable, ECT(0).
const ECN: u8 = 2;
