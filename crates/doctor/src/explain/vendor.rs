//! The vendor's syndrome of a completion. NCCL prints it in decimal, UCX and perftest in hexadecimal.

use serde::Serialize;

use super::scan::Number;

/// A syndrome in both bases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Syndrome {
    /// The number.
    pub decimal: u32,
    /// `0x51`.
    pub hex: String,
    /// Its meaning, if known.
    pub meaning: Option<&'static str>,
}

impl Syndrome {
    pub(super) fn new(number: Number) -> Self {
        let row = TABLE.iter().find(|(value, _)| *value == number.value);
        Syndrome {
            decimal: number.value,
            hex: format!("{:#x}", number.value),
            meaning: row.map(|(_, meaning)| *meaning),
        }
    }

    /// A note on numbers that are often confused: 81 is 0x51, and 0x81 is 129.
    pub(super) fn common_mistake(&self) -> Option<&'static str> {
        match self.decimal {
            0x51 => Some(
                "81 in decimal is 0x51. It is not 0x81, which is 129 in decimal and means that \
                 retries were exceeded.",
            ),
            0x81 => Some(
                "129 in decimal is 0x81. It is not 81, which is 0x51 and means a local protection \
                 fault.",
            ),
            _ => None,
        }
    }
}

/// For mlx4 and mlx5 NICs; other vendors have different numbers.
const TABLE: &[(u32, &str)] = &[
    (0x51, "local protection fault: the NIC's access to local memory was refused"),
    (0x81, "retries exceeded: the peer did not answer"),
    (0x88, "the peer's NIC refused access to its memory"),
    (0x89, "the peer's queue pair failed the operation"),
    (0x8a, "the peer's NIC found the request invalid"),
    (0xf9, "flushed after an earlier error"),
];
