//! The first message of each side on a link.

use super::{ProtocolError, Reader, VERSION};

/// The bytes of a granted region, which the fabric encodes and this crate passes on.
pub const REGION: usize = 36;
const MAGIC: [u8; 4] = *b"WLKV";

/// A client's first message: the service it uses on this link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientHello {
    /// The store.
    Store {
        /// The session to resume; `None` opens a new one.
        session: Option<[u8; 16]>,
        /// Memory for answers, granted for writing and reading: region 0.
        client_buffer: [u8; REGION],
        /// Whether it begins with a [`SlotBlock`](super::SlotBlock).
        slot_block: bool,
    },
    /// Measurements of the link.
    Measure,
}

/// The service of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The store.
    Store = 1,
    /// Measurements.
    Measure = 2,
}

impl ClientHello {
    /// The maximum encoded length.
    pub const MAX: usize = 8 + 16 + REGION;

    /// As a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let service = match self {
            ClientHello::Store { .. } => Service::Store,
            ClientHello::Measure => Service::Measure,
        };
        let mut bytes = MAGIC.to_vec();
        let slot_block = matches!(self, ClientHello::Store { slot_block: true, .. });
        bytes.extend([VERSION, service as u8, u8::from(slot_block), 0]);
        if let ClientHello::Store { session, client_buffer, .. } = self {
            bytes.extend(session.unwrap_or_default());
            bytes.extend(client_buffer);
        }
        bytes
    }

    /// Parses a client's first message.
    pub fn parse(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader { bytes: message };
        let [version, service, slot_block, zero] = header(&mut reader)?;
        if version != VERSION {
            return Err("different protocol version: run the same version at both ends");
        }
        if zero != 0 || slot_block > u8::from(service == 1) {
            return Err("hello with unknown flags");
        }
        let opening = match service {
            1 => {
                let session: [u8; 16] = reader.array()?;
                let session = (session != [0; 16]).then_some(session);
                ClientHello::Store {
                    session,
                    client_buffer: reader.array()?,
                    slot_block: slot_block == 1,
                }
            }
            2 => ClientHello::Measure,
            _ => return Err("unknown service"),
        };
        reader.end()?;
        Ok(opening)
    }
}

/// Checks the magic number and returns the four bytes after it.
fn header(reader: &mut Reader<'_>) -> Result<[u8; 4], ProtocolError> {
    if reader.array()? != MAGIC {
        return Err("not a Wirelane hello");
    }
    reader.array()
}

/// The store's answer to a [`ClientHello`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerHello {
    /// Changes with every start of the store. Sessions of earlier epochs are unknown.
    pub epoch: u64,
    /// The session's id, a secret shared by client and store.
    pub session: [u8; 16],
    /// Whether the requested session was resumed.
    pub resumed: bool,
    /// The store's limits.
    pub limits: Limits,
    /// The store's pool, granted for reading if this client may read values in place.
    pub pool: Option<[u8; REGION]>,
}

/// A store's limits for one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a batch, in bytes.
    pub message: u32,
    /// Maximum number of requests in a batch.
    pub requests: u16,
    /// Maximum number of batches in flight.
    pub batches: u16,
    /// Maximum number of granted regions, not counting the client buffer.
    pub regions: u16,
    /// Maximum length of a value, in bytes.
    pub value: u64,
    /// Maximum number of bytes of values that one batch may read or write.
    pub transfer: u64,
}

impl ServerHello {
    /// The encoded length.
    pub const LENGTH: usize = 8 + 8 + 16 + 4 + 3 * 2 + 2 + 2 * 8 + REGION;

    /// As a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Limits { message, requests, batches, regions, value, transfer } = self.limits;
        let mut bytes = MAGIC.to_vec();
        bytes.extend([
            VERSION,
            Service::Store as u8,
            u8::from(self.resumed),
            u8::from(self.pool.is_some()),
        ]);
        bytes.extend(self.epoch.to_le_bytes());
        bytes.extend(self.session);
        bytes.extend(message.to_le_bytes());
        for number in [requests, batches, regions, 0] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(value.to_le_bytes());
        bytes.extend(transfer.to_le_bytes());
        bytes.extend(self.pool.unwrap_or([0; REGION]));
        bytes
    }

    /// Parses the store's first message.
    pub fn parse(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader { bytes: message };
        let [version, service, resumed, reads_in_place] = header(&mut reader)?;
        if version != VERSION {
            return Err(
                "the store has a different protocol version: run the same version at both ends",
            );
        }
        if service != Service::Store as u8 || resumed > 1 || reads_in_place > 1 {
            return Err("not a store's hello");
        }
        let (epoch, session) = (reader.u64()?, reader.array()?);
        let limits = Limits {
            message: reader.u32()?,
            requests: reader.u16()?,
            batches: reader.u16()?,
            regions: reader.u16()?,
            value: {
                if reader.u16()? != 0 {
                    return Err("not a store's hello");
                }
                reader.u64()?
            },
            transfer: reader.u64()?,
        };
        let pool: [u8; REGION] = reader.array()?;
        reader.end()?;
        if reads_in_place == 0 && pool != [0; REGION] {
            return Err("not a store's hello");
        }
        if limits.requests == 0 || limits.batches == 0 || limits.message < 128 {
            return Err("the store's limits allow no request");
        }
        let pool = (reads_in_place == 1).then_some(pool);
        Ok(ServerHello { epoch, session, resumed: resumed == 1, limits, pool })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_hellos_round_trip() {
        let client_buffer = [7; REGION];
        for opening in [
            ClientHello::Store { session: None, client_buffer, slot_block: false },
            ClientHello::Store { session: Some([9; 16]), client_buffer, slot_block: true },
            ClientHello::Measure,
        ] {
            let bytes = opening.to_bytes();
            assert_eq!(ClientHello::parse(&bytes), Ok(opening));
            assert!(bytes.len() <= ClientHello::MAX);
            for cut in 0..bytes.len() {
                ClientHello::parse(&bytes[..cut]).expect_err("truncated");
            }
            ClientHello::parse(&[&bytes[..], &[0]].concat()).expect_err("too long");
            for (at, value) in [(0, 0), (4, 9), (5, 3), (6, 2), (7, 1)] {
                let mut bad = bytes.clone();
                bad[at] = value;
                ClientHello::parse(&bad).expect_err("unknown field");
            }
        }
    }

    #[test]
    fn server_hellos_round_trip() {
        let limits = Limits {
            message: 16384,
            requests: 256,
            batches: 64,
            regions: 16,
            value: 1 << 40,
            transfer: 1 << 30,
        };
        for pool in [None, Some([8; REGION])] {
            let welcome = ServerHello { epoch: 5, session: [3; 16], resumed: true, limits, pool };
            let bytes = welcome.to_bytes();
            assert_eq!(bytes.len(), ServerHello::LENGTH);
            assert_eq!(ServerHello::parse(&bytes), Ok(welcome));
            for cut in 0..bytes.len() {
                ServerHello::parse(&bytes[..cut]).expect_err("truncated");
            }
            for (at, value) in [(0, 0), (4, 2), (5, 2), (6, 2), (7, 2)] {
                let mut bad = bytes.clone();
                bad[at] = value;
                ServerHello::parse(&bad).expect_err("unknown field");
            }
        }
        let mut bad = ServerHello { epoch: 5, session: [3; 16], resumed: true, limits, pool: None }
            .to_bytes();
        bad[ServerHello::LENGTH - 1] = 1;
        ServerHello::parse(&bad).expect_err("a pool that is not readable");
    }
}
