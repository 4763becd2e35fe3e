//! What one end of a lane tells the other, as bytes: read strictly, since they come from outside.

use super::av::Address;
use super::peer_process::Home;
use crate::error::{Error, Kind};

/// One end of a lane. Version 3: version, buffers, longest frame and message, token, home, provider, address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    /// How many frames it takes in before they are received.
    pub(super) buffers: u16,
    /// How long a frame may be, header and all.
    pub(super) frame: u32,
    /// The longest message it takes.
    pub(super) max_message: u32,
    /// What frames to it begin with. Only in offers.
    pub(super) token: u64,
    /// Where its process is to be found.
    pub(super) home: Home,
    /// The provider's name: those of two names do not understand each other.
    pub(super) provider: String,
    /// The endpoint's, in the provider's format.
    pub(super) address: Vec<u8>,
}

impl Offer {
    /// Frames of another format follow from another offer.
    const VERSION: u8 = 3;
    const LONGEST_NAME: usize = 64;

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![Self::VERSION];
        bytes.extend(self.buffers.to_le_bytes());
        bytes.extend(self.frame.to_le_bytes());
        bytes.extend(self.max_message.to_le_bytes());
        bytes.extend(self.token.to_le_bytes());
        bytes.extend(self.home.to_bytes());
        for part in [self.provider.as_bytes(), &self.address] {
            bytes.extend((part.len() as u16).to_le_bytes());
            bytes.extend(part);
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::parse(bytes).ok_or_else(|| {
            let why = match bytes.first() {
                Some(version) if *version != Self::VERSION => {
                    format!("format {version}, this program knows {}", Self::VERSION)
                }
                _ => "it is none that we know".to_owned(),
            };
            let fix = "pass on the peer's offer as it is; both ends must run versions that know \
                          each other";
            Error::new(Kind::Misuse, "read a peer's libfabric offer", why, fix)
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[version], rest) = bytes.split_first_chunk()?;
        let (buffers, rest) = rest.split_first_chunk()?;
        let (frame, rest) = rest.split_first_chunk()?;
        let (max_message, rest) = rest.split_first_chunk()?;
        let (token, rest) = rest.split_first_chunk()?;
        let (home, rest) = rest.split_first_chunk()?;
        let (provider, rest) = part(rest, Self::LONGEST_NAME)?;
        let (address, rest) = part(rest, Address::MAX)?;
        let offer = Offer {
            buffers: u16::from_le_bytes(*buffers),
            frame: u32::from_le_bytes(*frame),
            max_message: u32::from_le_bytes(*max_message),
            token: u64::from_le_bytes(*token),
            home: Home::from_bytes(home),
            provider: std::str::from_utf8(provider).ok()?.to_owned(),
            address: address.to_vec(),
        };
        let sane = version == Self::VERSION
            && rest.is_empty()
            && offer.buffers > 0
            && (256..=1 << 24).contains(&offer.frame)
            && offer.max_message >= 256
            && !address.is_empty();
        sane.then_some(offer)
    }
}

/// Bytes behind their length, of which there are at most so many.
fn part(bytes: &[u8], most: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::from(u16::from_le_bytes(*length));
    (length <= most).then(|| rest.split_at_checked(length))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Offer {
        Offer {
            buffers: 64,
            frame: 16 << 10,
            max_message: 1 << 20,
            token: 0x1122_3344_5566_7788,
            home: Home { boot: [7; 16], space: 9, pid: 1234 },
            provider: "tcp;ofi_rxm".to_owned(),
            address: vec![2, 0, 127, 0, 0, 1],
        }
    }

    #[test]
    fn offers_come_back_as_they_were() {
        let offer = example();
        assert_eq!(Offer::from_bytes(&offer.to_bytes()), Ok(offer));
    }

    #[test]
    fn a_newer_format_is_said_by_its_number() {
        let mut bytes = example().to_bytes();
        bytes[0] = 4;
        let error = Offer::from_bytes(&bytes).unwrap_err();
        assert!(error.to_string().contains("format 4, this program knows 3"), "{error}");
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let good = example().to_bytes();
        for end in 0..good.len() {
            Offer::from_bytes(&good[..end]).expect_err("too short");
        }
        Offer::from_bytes(&[&good[..], &[0]].concat()).expect_err("too long");
        let long = Offer { address: vec![1; Address::MAX + 1], ..example() };
        let nameless = Offer { address: Vec::new(), ..example() };
        let closed = Offer { buffers: 0, ..example() };
        for bad in [long, nameless, closed] {
            Offer::from_bytes(&bad.to_bytes()).expect_err("out of its range");
        }
    }

    /// Whatever comes is an offer or an error, and an offer is exactly its bytes.
    #[test]
    fn random_bytes_never_panic_and_never_read_as_something_else() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut accepted = 0;
        for _ in 0..100_000 {
            let mut bytes = example().to_bytes();
            for _ in 0..random() % 4 {
                let at = random() as usize % bytes.len();
                bytes[at] = random() as u8;
            }
            super::super::fuzz_offer(&bytes);
            accepted += usize::from(Offer::from_bytes(&bytes).is_ok());
        }
        assert!(accepted > 1000, "{accepted}");
    }
}
