//! What an end says of itself in the handshake: who it is, what it wants, and by which ways it is reached.

use super::bytes::{Reader, put_bytes, put_text};
use super::config::Policy;
use super::control::Class;
use crate::verbs::Way;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Card {
    /// Names this life of the process: regions of an earlier one are refused.
    pub(super) epoch: u64,
    /// One start of one kernel: the same for all processes of a host.
    pub(super) boot: [u8; 16],
    /// The host's name, for people.
    pub(super) host: String,
    pub(super) policy: Policy,
    /// Which kinds of ways it would use.
    pub(super) classes: Vec<Class>,
    /// Whether TCP lanes must be encrypted.
    pub(super) encrypt: bool,
    /// The payload of a message on a lane that it takes.
    pub(super) room: u32,
    /// How many regions it may be granted.
    pub(super) regions: u32,
    /// Its RDMA ports.
    pub(super) ways: Vec<Way>,
    /// Why it has no RDMA, if it has none.
    pub(super) no_rdma: String,
}

impl Card {
    const VERSION: u8 = 1;

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![Self::VERSION];
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.boot);
        put_text(&mut bytes, &self.host, MOST_HOST);
        bytes.push(self.policy as u8);
        bytes.push(self.classes.iter().fold(0, |bits, class| bits | 1 << *class as u8));
        bytes.push(u8::from(self.encrypt));
        bytes.extend(self.room.to_le_bytes());
        bytes.extend(self.regions.to_le_bytes());
        let ways = &self.ways[..self.ways.len().min(MOST_WAYS)];
        bytes.push(ways.len() as u8);
        for way in ways {
            put_bytes(&mut bytes, &way.to_bytes());
        }
        put_text(&mut bytes, &self.no_rdma, MOST_TEXT);
        bytes
    }

    /// `None`: no card of ours.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != Self::VERSION {
            return None;
        }
        let (epoch, boot) = (reader.u64()?, reader.array()?);
        let host = reader.text(MOST_HOST)?;
        let policy = *Policy::ALL.get(usize::from(reader.u8()?))?;
        let bits = reader.u8()?;
        let classes = Class::ALL.into_iter().filter(|class| bits & 1 << *class as u8 != 0);
        let classes = classes.collect();
        let encrypt = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let (room, regions) = (reader.u32()?, reader.u32()?);
        let count = usize::from(reader.u8()?);
        if count > MOST_WAYS || !(LEAST_ROOM..=MOST_ROOM).contains(&room) {
            return None;
        }
        let way = |_| Way::from_bytes(reader.bytes(Way::MOST_BYTES)?).ok();
        let ways = (0..count).map(way).collect::<Option<Vec<Way>>>()?;
        let no_rdma = reader.text(MOST_TEXT)?;
        reader.end()?;
        Some(Card { epoch, boot, host, policy, classes, encrypt, room, regions, ways, no_rdma })
    }
}

/// A port's name among the ways of a host.
pub(super) fn way_name(way: &Way) -> String {
    format!("{}/{}", way.device, way.port)
}

const MOST_HOST: usize = 255;
const MOST_TEXT: usize = 1024;
const MOST_WAYS: usize = 64;
const LEAST_ROOM: u32 = 64;
const MOST_ROOM: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Card {
        Card {
            epoch: 7,
            boot: [9; 16],
            host: "node17".to_owned(),
            policy: Policy::Off,
            classes: vec![Class::Shm, Class::Tcp],
            encrypt: false,
            room: 4096,
            regions: 16,
            ways: Vec::new(),
            no_rdma: "there is no RDMA device".to_owned(),
        }
    }

    #[test]
    fn cards_come_back_as_they_were() {
        assert_eq!(Card::parse(&example().to_bytes()), Some(example()));
    }

    #[test]
    fn nonsense_is_refused() {
        let good = example().to_bytes();
        for end in 0..good.len() {
            assert_eq!(Card::parse(&good[..end]), None, "cut at {end}");
        }
        assert_eq!(Card::parse(&[&good[..], &[0]].concat()), None);
        assert_eq!(Card::parse(&Card { room: 1, ..example() }.to_bytes()), None);
        let mut newer = good;
        newer[0] = 2;
        assert_eq!(Card::parse(&newer), None);
    }
}
