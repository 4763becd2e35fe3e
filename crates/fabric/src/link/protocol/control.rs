//! Messages of the control connection of a link.

use super::bytes::{Reader, put_bytes, put_text};
use crate::remote::RemoteRegion;

/// A control message. `rail` and `generation` identify one lane of the link: each attempt on a rail has
/// the next generation, and messages for older ones are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::link) enum Control {
    /// The initiator has prepared its end of a lane.
    Open { rail: u8, generation: u32, plan: RailPlan, offer: Vec<u8> },
    /// The other end has prepared its end of it.
    Opened { rail: u8, generation: u32, offer: Vec<u8> },
    /// The sender's end is connected: its number of receive slots by class, and a region to probe.
    Connected { rail: u8, generation: u32, slots: [u16; 2], probe: RemoteRegion },
    /// The sender has written to the probe region and read back the same bytes.
    Verified { rail: u8, generation: u32 },
    /// The sender's end is closed: no write of this lane takes effect any more. `received`: the number of messages received.
    Fenced { rail: u8, generation: u32, received: u64, why: String },
    /// The key of a granted region on a lane; `None`: it cannot be reached on this lane.
    Key { rail: u8, generation: u32, region: u64, key: Option<RemoteRegion> },
    /// A region was dropped, or never existed.
    Gone { region: u64 },
    /// Queries a region that the sender does not know.
    Query { region: u64 },
    /// The numbers of freed slots on this lane, by class, and of messages taken: for a peer that
    /// has no free slot on the lane.
    Freed { rail: u8, generation: u32, freed: [u32; 2], taken: u32 },
    /// The sender, which accepted, has RDMA ports now: its hello with them.
    Devices { hello: Vec<u8> },
    /// A heartbeat.
    Heartbeat,
    /// The link ends: `orderly` if its owner closed it, otherwise because of an error.
    Bye { orderly: bool, why: String },
}

/// The plan of a rail, by the initiator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RailPlan {
    /// The transport.
    pub(crate) transport: Transport,
    /// The names of the initiator's port or provider, and of the listener's.
    pub(crate) port_names: [String; 2],
    /// Its share of the load relative to other rails of its transport.
    pub(crate) weight: u32,
    /// Why these ports were chosen.
    pub(crate) why: String,
}

/// Transports, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Shared memory.
    Shm,
    /// RDMA with verbs.
    Verbs,
    /// Providers of libfabric.
    Ofi,
    /// TCP.
    Tcp,
}

impl Transport {
    /// All transports, the best first.
    pub const ALL: [Transport; 4] =
        [Transport::Shm, Transport::Verbs, Transport::Ofi, Transport::Tcp];
    /// The transports that are enabled by default. Not libfabric: it hooks into the memory allocation of the whole
    /// process.
    pub const DEFAULT: [Transport; 3] = [Transport::Shm, Transport::Verbs, Transport::Tcp];

    /// The name in settings and statistics.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Shm => "shm",
            Transport::Verbs => "verbs",
            Transport::Ofi => "ofi",
            Transport::Tcp => "tcp",
        }
    }

    /// The number on the wire: libfabric was added last.
    pub(in crate::link) fn code(self) -> u8 {
        match self {
            Transport::Shm => 0,
            Transport::Verbs => 1,
            Transport::Tcp => 2,
            Transport::Ofi => 3,
        }
    }

    pub(in crate::link) fn from_code(code: u8) -> Option<Transport> {
        Transport::ALL.into_iter().find(|transport| transport.code() == code)
    }
}

impl Control {
    pub(in crate::link) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        let lane = |bytes: &mut Vec<u8>, kind: u8, rail: &u8, generation: &u32| {
            bytes.extend([kind, *rail]);
            bytes.extend(generation.to_le_bytes());
        };
        match self {
            Control::Open { rail, generation, plan, offer } => {
                lane(&mut bytes, 1, rail, generation);
                plan.encode(&mut bytes);
                put_bytes(&mut bytes, offer);
            }
            Control::Opened { rail, generation, offer } => {
                lane(&mut bytes, 2, rail, generation);
                put_bytes(&mut bytes, offer);
            }
            Control::Connected { rail, generation, slots, probe } => {
                lane(&mut bytes, 3, rail, generation);
                bytes.extend(slots.iter().flat_map(|slots| slots.to_le_bytes()));
                bytes.extend(probe.to_bytes());
            }
            Control::Verified { rail, generation } => lane(&mut bytes, 4, rail, generation),
            Control::Fenced { rail, generation, received, why } => {
                lane(&mut bytes, 5, rail, generation);
                bytes.extend(received.to_le_bytes());
                put_text(&mut bytes, why, MAX_TEXT);
            }
            Control::Key { rail, generation, region, key } => {
                lane(&mut bytes, 6, rail, generation);
                bytes.extend(region.to_le_bytes());
                bytes.push(u8::from(key.is_some()));
                bytes.extend(key.iter().flat_map(RemoteRegion::to_bytes));
            }
            Control::Gone { region } => {
                bytes.push(7);
                bytes.extend(region.to_le_bytes());
            }
            Control::Query { region } => {
                bytes.push(8);
                bytes.extend(region.to_le_bytes());
            }
            Control::Freed { rail, generation, freed, taken } => {
                lane(&mut bytes, 11, rail, generation);
                bytes.extend(freed.iter().chain([taken]).flat_map(|count| count.to_le_bytes()));
            }
            Control::Devices { hello } => {
                bytes.push(12);
                put_bytes(&mut bytes, hello);
            }
            Control::Heartbeat => bytes.push(9),
            Control::Bye { orderly, why } => {
                bytes.extend([10, u8::from(*orderly)]);
                put_text(&mut bytes, why, MAX_TEXT);
            }
        }
        bytes
    }

    /// `None`: not a valid message.
    pub(in crate::link) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8()?;
        let (rail, generation) = match kind {
            1..=6 | 11 => (reader.u8()?, reader.u32()?),
            _ => (0, 0),
        };
        let message = match kind {
            1 => {
                let plan = RailPlan::decode(&mut reader)?;
                let offer = reader.bytes(MAX_OFFER)?.to_vec();
                Control::Open { rail, generation, plan, offer }
            }
            2 => Control::Opened { rail, generation, offer: reader.bytes(MAX_OFFER)?.to_vec() },
            3 => {
                let slots = [reader.u16()?, reader.u16()?];
                let probe = read_region(&mut reader)?;
                Control::Connected { rail, generation, slots, probe }
            }
            4 => Control::Verified { rail, generation },
            5 => {
                let received = reader.u64()?;
                Control::Fenced { rail, generation, received, why: reader.text(MAX_TEXT)? }
            }
            6 => {
                let region = reader.u64()?;
                let key = match reader.u8()? {
                    0 => None,
                    1 => Some(read_region(&mut reader)?),
                    _ => return None,
                };
                Control::Key { rail, generation, region, key }
            }
            7 => Control::Gone { region: reader.u64()? },
            8 => Control::Query { region: reader.u64()? },
            9 => Control::Heartbeat,
            10 => {
                let orderly = match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                Control::Bye { orderly, why: reader.text(MAX_TEXT)? }
            }
            11 => {
                let freed = [reader.u32()?, reader.u32()?];
                Control::Freed { rail, generation, freed, taken: reader.u32()? }
            }
            12 => Control::Devices { hello: reader.bytes(MAX_HELLO)?.to_vec() },
            _ => return None,
        };
        reader.end()?;
        Some(message)
    }
}

impl RailPlan {
    /// The plan of a rail that the initiator has not opened yet.
    pub(in crate::link) fn unknown() -> Self {
        let port_names = [const { String::new() }; 2];
        RailPlan {
            transport: Transport::Tcp,
            port_names,
            weight: 1,
            why: "not opened yet".to_owned(),
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.transport.code());
        bytes.extend(self.weight.to_le_bytes());
        for name in &self.port_names {
            put_text(bytes, name, MAX_NAME);
        }
        put_text(bytes, &self.why, MAX_TEXT);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let transport = Transport::from_code(reader.u8()?)?;
        let weight = reader.u32()?.max(1);
        let port_names = [reader.text(MAX_NAME)?, reader.text(MAX_NAME)?];
        Some(RailPlan { transport, port_names, weight, why: reader.text(MAX_TEXT)? })
    }
}

fn read_region(reader: &mut Reader<'_>) -> Option<RemoteRegion> {
    RemoteRegion::from_bytes(&reader.array::<{ RemoteRegion::ENCODED_BYTES }>()?).ok()
}

const MAX_TEXT: usize = 1024;
const MAX_NAME: usize = 128;
const MAX_OFFER: usize = 1024;
/// As in the handshake.
const MAX_HELLO: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Rights;
    use crate::remote::LaneKind;

    fn examples() -> Vec<Control> {
        let key = RemoteRegion {
            lane: LaneKind::Sim,
            rights: Rights::ALL,
            length: 4096,
            address: 1,
            key: 2,
        };
        let plan = RailPlan {
            transport: Transport::Verbs,
            port_names: ["rxe0/1".to_owned(), "rxe1/1".to_owned()],
            weight: 7,
            why: "the same subnet".to_owned(),
        };
        let (rail, generation) = (3, 9);
        vec![
            Control::Open { rail, generation, plan, offer: vec![1, 2, 3] },
            Control::Opened { rail, generation, offer: Vec::new() },
            Control::Connected { rail, generation, slots: [64, 16], probe: key },
            Control::Verified { rail, generation },
            Control::Fenced { rail, generation, received: 5, why: "no reason".to_owned() },
            Control::Key { rail, generation, region: 6, key: Some(key) },
            Control::Key { rail, generation, region: 6, key: None },
            Control::Freed { rail, generation, freed: [1, 2], taken: 3 },
            Control::Gone { region: 6 },
            Control::Query { region: 6 },
            Control::Devices { hello: vec![1; 200] },
            Control::Heartbeat,
            Control::Bye { orderly: true, why: "done".to_owned() },
            Control::Bye { orderly: false, why: "no".to_owned() },
        ]
    }

    #[test]
    fn messages_survive_encoding() {
        for message in examples() {
            assert_eq!(Control::parse(&message.to_bytes()), Some(message));
        }
    }

    #[test]
    fn truncated_and_extended_messages_are_refused() {
        for message in examples() {
            let bytes = message.to_bytes();
            for end in 0..bytes.len() {
                assert_eq!(Control::parse(&bytes[..end]), None, "{message:?} cut at {end}");
            }
            assert_eq!(Control::parse(&[&bytes[..], &[0]].concat()), None, "{message:?}");
        }
        assert_eq!(Control::parse(&[99]), None);
    }
}
