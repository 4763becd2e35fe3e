//! The parameters that each end of a lane sends to the other, and their encoding. Decoding is strict, since the
//! bytes are untrusted.

use super::config::QpType;
use super::gid::Gid;
use super::port::LinkLayer;
use crate::error::{Error, ErrorKind};

/// One end of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) qp_type: QpType,
    pub(super) link_layer: LinkLayer,
    /// As an `enum ibv_mtu`, 1 to 5.
    pub(super) mtu: u8,
    /// The number of reads and atomics that it serves concurrently.
    pub(super) rd_atomic: u8,
    /// Whether its device supports atomics.
    pub(super) atomics: bool,
    pub(super) lid: u16,
    /// 24 bits.
    pub(super) qpn: u32,
    /// 24 bits; the first packet sequence number.
    pub(super) psn: u32,
    /// Datagrams without it are dropped.
    pub(super) qkey: u32,
    /// The longest message of a request.
    pub(super) max_message: u32,
    /// The longest message of a send, if it receives from a shared queue.
    pub(super) max_receive: Option<u32>,
    /// All zero if the port has none.
    pub(super) gid: Gid,
}

impl Offer {
    pub(super) const ENCODED: usize = 44;
    const VERSION: u8 = 2;

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let kinds = [Self::VERSION, self.qp_type as u8, self.link_layer as u8];
        let mut bytes = Vec::with_capacity(Self::ENCODED);
        bytes.extend(kinds);
        bytes.extend([self.mtu, self.rd_atomic, u8::from(self.atomics)]);
        bytes.extend(self.lid.to_le_bytes());
        let max_receive = self.max_receive.unwrap_or(0);
        for number in [self.qpn, self.psn, self.qkey, self.max_message, max_receive] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.gid.0);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::parse(bytes).map_err(|why| {
            let fix = "pass the peer's offer unchanged; both ends must run compatible versions";
            Error::new(ErrorKind::Misuse, "read a peer's verbs offer", why, fix)
        })
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let version = bytes.first().copied().ok_or("it is empty")?;
        if version != Self::VERSION {
            return Err(format!(
                "unsupported format {version} (this version supports {})",
                Self::VERSION
            ));
        }
        let bytes: &[u8; Self::ENCODED] = bytes
            .try_into()
            .map_err(|_| format!("{} bytes, expected {}", bytes.len(), Self::ENCODED))?;
        let number =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let offer = Offer {
            qp_type: qp_type(bytes[1])?,
            link_layer: link_layer(bytes[2])?,
            mtu: bytes[3],
            rd_atomic: bytes[4],
            atomics: bytes[5] == 1,
            lid: u16::from_le_bytes([bytes[6], bytes[7]]),
            qpn: number(8),
            psn: number(12),
            qkey: number(16),
            max_message: number(20),
            max_receive: Some(number(24)).filter(|limit| *limit > 0),
            gid: Gid(bytes[28..44].try_into().expect("sixteen bytes")),
        };
        // No device limits messages to less than the smallest MTU.
        let in_range = bytes[5] <= 1
            && (1..=5).contains(&offer.mtu)
            && offer.qpn < 1 << 24
            && offer.psn < 1 << 24
            && offer.max_message >= 256
            && offer.max_receive.is_none_or(|limit| limit >= 256);
        in_range.then_some(offer).ok_or_else(|| "a field is out of range".to_owned())
    }
}

fn qp_type(code: u8) -> Result<QpType, String> {
    [QpType::Rc, QpType::Ud]
        .into_iter()
        .find(|kind| *kind as u8 == code)
        .ok_or_else(|| format!("unknown queue pair type {code}"))
}

fn link_layer(code: u8) -> Result<LinkLayer, String> {
    [LinkLayer::InfiniBand, LinkLayer::Ethernet]
        .into_iter()
        .find(|layer| *layer as u8 == code)
        .ok_or_else(|| format!("unknown link layer {code}"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn example() -> Offer {
        Offer {
            qp_type: QpType::Rc,
            link_layer: LinkLayer::Ethernet,
            mtu: 5,
            rd_atomic: 128,
            atomics: true,
            lid: 7,
            qpn: 0x1234,
            psn: 0xff_ffff,
            qkey: 0,
            max_message: 1 << 31,
            max_receive: None,
            gid: Gid([9; 16]),
        }
    }

    #[test]
    fn offers_decode_to_what_was_encoded() {
        let datagram =
            Offer { qp_type: QpType::Ud, link_layer: LinkLayer::InfiniBand, qkey: 3, ..example() };
        let shared = Offer { max_receive: Some(4096), ..example() };
        for offer in [example(), datagram, shared] {
            assert_eq!(offer.to_bytes().len(), Offer::ENCODED);
            assert_eq!(Offer::from_bytes(&offer.to_bytes()), Ok(offer));
        }
    }

    #[test]
    fn the_error_for_a_newer_format_has_its_number() {
        let mut bytes = example().to_bytes();
        bytes[0] = 3;
        let error = Offer::from_bytes(&bytes).unwrap_err();
        assert!(error.to_string().contains("format 3 (this version supports 2)"), "{error}");
    }

    #[test]
    fn fields_out_of_range_are_refused() {
        let good = example().to_bytes();
        Offer::from_bytes(&[]).expect_err("empty");
        Offer::from_bytes(&good[..43]).expect_err("too short");
        Offer::from_bytes(&[&good[..], &[0]].concat()).expect_err("too long");
        for (at, value) in
            [(1, 2), (1, 9), (2, 2), (3, 0), (3, 6), (5, 2), (11, 1), (15, 1), (24, 1)]
        {
            let mut bad = good.clone();
            bad[at] = value;
            Offer::from_bytes(&bad).expect_err("invalid field");
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
            // Mostly valid, so that later checks are reached too.
            for _ in 0..random() % 4 {
                let at = random() as usize % bytes.len();
                bytes[at] = random() as u8;
            }
            bytes.truncate(if random() % 8 == 0 { random() as usize % 45 } else { 44 });
            if let Ok(offer) = Offer::from_bytes(&bytes) {
                assert_eq!(offer.to_bytes(), bytes);
                accepted += 1;
            }
        }
        assert!(accepted > 1000, "{accepted}");
    }
}
