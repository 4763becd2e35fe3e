//! The vendor's own number beside a status. NCCL prints it in decimal, UCX and perftest in hexadecimal.

use serde::Serialize;

use super::scan::Number;

/// A syndrome in both bases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Syndrome {
    /// The number.
    pub decimal: u32,
    /// `0x51`.
    pub hex: String,
    /// What it is known to mean.
    pub meaning: Option<&'static str>,
}

impl Syndrome {
    pub(super) fn of(number: Number) -> Self {
        let row = TABLE.iter().find(|(value, _)| *value == number.value);
        Syndrome {
            decimal: number.value,
            hex: format!("{:#x}", number.value),
            meaning: row.map(|(_, meaning)| *meaning),
        }
    }

    /// What people mix up: 81 is 0x51, and 0x81 is 129.
    pub(super) fn mix_up(&self) -> Option<&'static str> {
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

/// Cards of mlx4 and mlx5; other makers have numbers of their own.
const TABLE: &[(u32, &str)] = &[
    (0x51, "local protection fault: the card's access to memory at this end was refused"),
    (0x81, "retries exceeded: no answer came"),
    (0x88, "the peer's card refused access to its memory"),
    (0x89, "the peer's queue pair failed the operation"),
    (0x8a, "the peer's card found the request invalid"),
    (0xf9, "thrown away after an earlier error"),
];
