//! The parameters that each end of a lane sends to the other, and their encoding. Decoding is strict, since the
//! bytes are untrusted.

use super::av::Address;
use super::peer_process::ProcessId;
use crate::error::{Error, ErrorKind};

/// One end of a lane. Encoding, version 3: version, buffers, frame, max_message, secret, process, provider, address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    /// The number of frames that it buffers before they are received.
    pub(super) buffers: u16,
    /// The maximum length of a frame, including its header.
    pub(super) frame: u32,
    /// The maximum length of a message.
    pub(super) max_message: u32,
    /// The lane secret of this end: the first field of every frame sent to it.
    pub(super) secret: u64,
    /// Its process.
    pub(super) process: ProcessId,
    /// The provider's name: different providers cannot communicate.
    pub(super) provider: String,
    /// The endpoint's address, in the provider's format.
    pub(super) address: Vec<u8>,
}

impl Offer {
    /// Also the version of the frames.
    const VERSION: u8 = 3;
    const MAX_NAME_BYTES: usize = 64;

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![Self::VERSION];
        bytes.extend(self.buffers.to_le_bytes());
        bytes.extend(self.frame.to_le_bytes());
        bytes.extend(self.max_message.to_le_bytes());
        bytes.extend(self.secret.to_le_bytes());
        bytes.extend(self.process.to_bytes());
        for part in [self.provider.as_bytes(), &self.address] {
            bytes.extend((part.len() as u16).to_le_bytes());
            bytes.extend(part);
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::parse(bytes).ok_or_else(|| {
            let why = match bytes.first() {
                Some(version) if *version != Self::VERSION => format!(
                    "unsupported format {version} (this version supports {})",
                    Self::VERSION
                ),
                _ => "malformed offer".to_owned(),
            };
            let fix = "pass the peer's offer unchanged; both ends must run compatible versions";
            Error::new(ErrorKind::Misuse, "read a peer's libfabric offer", why, fix)
        })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[version], rest) = bytes.split_first_chunk()?;
        let (buffers, rest) = rest.split_first_chunk()?;
        let (frame, rest) = rest.split_first_chunk()?;
        let (max_message, rest) = rest.split_first_chunk()?;
        let (secret, rest) = rest.split_first_chunk()?;
        let (process, rest) = rest.split_first_chunk()?;
        let (provider, rest) = split_bytes(rest, Self::MAX_NAME_BYTES)?;
        let (address, rest) = split_bytes(rest, Address::MAX_BYTES)?;
        let offer = Offer {
            buffers: u16::from_le_bytes(*buffers),
            frame: u32::from_le_bytes(*frame),
            max_message: u32::from_le_bytes(*max_message),
            secret: u64::from_le_bytes(*secret),
            process: ProcessId::from_bytes(process),
            provider: std::str::from_utf8(provider).ok()?.to_owned(),
            address: address.to_vec(),
        };
        let in_range = version == Self::VERSION
            && rest.is_empty()
            && offer.buffers > 0
            && (256..=1 << 24).contains(&offer.frame)
            && offer.max_message >= 256
            && !address.is_empty();
        in_range.then_some(offer)
    }
}

/// Splits off a field that is preceded by its length, at most `max` bytes.
fn split_bytes(bytes: &[u8], max: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::from(u16::from_le_bytes(*length));
    (length <= max).then(|| rest.split_at_checked(length))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Offer {
        Offer {
            buffers: 64,
            frame: 16 << 10,
            max_message: 1 << 20,
            secret: 0x1122_3344_5566_7788,
            process: ProcessId { boot: [7; 16], pid_namespace: 9, pid: 1234 },
            provider: "tcp;ofi_rxm".to_owned(),
            address: vec![2, 0, 127, 0, 0, 1],
        }
    }

    #[test]
    fn offers_decode_to_what_was_encoded() {
        let offer = example();
        assert_eq!(Offer::from_bytes(&offer.to_bytes()), Ok(offer));
    }

    #[test]
    fn the_error_for_a_newer_format_has_its_number() {
        let mut bytes = example().to_bytes();
        bytes[0] = 4;
        let error = Offer::from_bytes(&bytes).unwrap_err();
        assert!(error.to_string().contains("format 4 (this version supports 3)"), "{error}");
    }

    #[test]
    fn fields_out_of_range_are_refused() {
        let good = example().to_bytes();
        for end in 0..good.len() {
            Offer::from_bytes(&good[..end]).expect_err("too short");
        }
        Offer::from_bytes(&[&good[..], &[0]].concat()).expect_err("too long");
        let long_address = Offer { address: vec![1; Address::MAX_BYTES + 1], ..example() };
        let no_address = Offer { address: Vec::new(), ..example() };
        let no_buffers = Offer { buffers: 0, ..example() };
        for bad in [long_address, no_address, no_buffers] {
            Offer::from_bytes(&bad.to_bytes()).expect_err("out of range");
        }
    }

    /// Any bytes are an offer or an error, and an offer encodes to exactly these bytes.
    #[test]
    fn random_bytes_are_refused_or_encode_identically() {
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
