//! A transferred amount.

use std::fmt;

use serde::Serialize;

/// Bytes, and packets of devices that do not count bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// `None`: no device counts them.
    pub bytes: Option<u64>,
    /// Packets of devices that do not count bytes; `None`: all do.
    pub packets: Option<u64>,
}

impl Amount {
    /// The transferred amount, from the sent and received amounts of each end: what one end sent, another received, so
    /// the greater of both sums is the amount on the wires.
    pub(super) fn transferred(ends: impl Iterator<Item = (Amount, Amount)>) -> Amount {
        let (sent, received) = ends.fold((Amount::default(), Amount::default()), |sums, end| {
            (sums.0.and(end.0), sums.1.and(end.1))
        });
        Amount {
            bytes: sent.bytes.max(received.bytes),
            packets: sent.packets.max(received.packets),
        }
    }

    /// The sum.
    pub(super) fn and(self, other: Amount) -> Amount {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        Amount { bytes: sum(self.bytes, other.bytes), packets: sum(self.packets, other.packets) }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, self.packets) {
            (Some(bytes), None | Some(0)) => f.write_str(&in_units(bytes)),
            (None | Some(0), Some(packets)) => write!(f, "{packets} packets"),
            (Some(bytes), Some(packets)) => {
                write!(
                    f,
                    "{} and {packets} packets on ports without byte counters",
                    in_units(bytes)
                )
            }
            (None, None) => f.write_str("nothing"),
        }
    }
}

/// In decimal units, as link rates.
fn in_units(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let exact = bytes as f64;
    match units.iter().find(|(size, _)| exact >= *size) {
        Some((size, unit)) => format!("{:.1} {unit}", exact / size),
        None => format!("{bytes} B"),
    }
}
