//! Offers of simulated lanes.

use crate::error::{Error, ErrorKind};

/// Identifies an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) world: u64,
    pub(super) end: u32,
}

impl Offer {
    const VERSION: u8 = 1;
    const ENCODED_BYTES: usize = 13;

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![Self::VERSION];
        bytes.extend(self.world.to_le_bytes());
        bytes.extend(self.end.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        match bytes {
            [Self::VERSION, world @ .., a, b, c, d] if bytes.len() == Self::ENCODED_BYTES => {
                Ok(Offer {
                    world: u64::from_le_bytes(world.try_into().expect("eight of thirteen")),
                    end: u32::from_le_bytes([*a, *b, *c, *d]),
                })
            }
            [version, ..] if *version != Self::VERSION => {
                let ours = Self::VERSION;
                Err(misuse(format!("the offer has format {version}, expected {ours}")))
            }
            _ => Err(misuse(format!(
                "an offer of {} bytes, not {}",
                bytes.len(),
                Self::ENCODED_BYTES
            ))),
        }
    }
}

/// An invalid offer.
pub(super) fn misuse(why: impl std::fmt::Display) -> Error {
    let fix = "pass on the offer of the other end: same world, same wire, one dials and one \
                  accepts";
    Error::new(ErrorKind::Misuse, "connect a simulated lane", why, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_offer_is_decoded_unchanged_and_invalid_bytes_are_refused() {
        let offer = Offer { world: u64::MAX - 3, end: 77 };
        let bytes = offer.to_bytes();
        assert_eq!(Offer::from_bytes(&bytes), Ok(offer));
        let refused = |bytes: &[u8]| Offer::from_bytes(bytes).unwrap_err().to_string();
        assert!(refused(&[]).contains("an offer of 0 bytes, not 13"));
        assert!(refused(&bytes[..12]).contains("an offer of 12 bytes, not 13"));
        assert!(refused(&[&bytes[..], &[0]].concat()).contains("an offer of 14 bytes"));
        assert!(refused(&[&[2], &bytes[1..]].concat()).contains("format 2, expected 1"));
    }
}
