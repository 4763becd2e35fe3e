//! Messages between the two ends, as JSON over a session.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use report::{Latency, Outcome, Plan};

/// Describes an end, in the session's handshake.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Distinguishes these sessions from links.
    pub(crate) protocol: String,
    /// The version of the messages.
    pub(crate) version: u32,
    /// The program's version.
    pub(crate) program: String,
    /// The host's boot id, by which two processes of one host recognize it.
    pub(crate) boot: String,
    /// Whether the host has usable RDMA ports.
    pub(crate) rdma: bool,
    /// Other facts about the host, from the program.
    pub(crate) about: serde_json::Value,
}

/// A message. Variants are in the order of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// Requests a measurement; with the client's RDMA ports.
    Measure {
        /// What to measure.
        plan: Box<Plan>,
        /// Encoded `fabric::verbs::UsablePort`s.
        ports: Vec<Bytes>,
    },
    /// Requests a measurement from the server to a third end, with the client's credentials.
    Relay {
        /// The address of the third end.
        to: String,
        /// What to measure.
        plan: Box<Plan>,
        /// Whether the server chooses the transport; otherwise the plan's is used.
        choose: bool,
    },
    /// The result of that.
    RelayResult(Box<Outcome>),
    /// Requests the list of RDMA ports, of one device or of all.
    ListPorts {
        /// The device.
        device: Option<String>,
    },
    /// The list.
    Ports(Vec<ListedPort>),
    /// Accepts a measurement, with the server's RDMA ports.
    Agreed {
        /// As above.
        ports: Vec<Bytes>,
    },
    /// Offers of lanes, in the order of rails.
    Offers(Vec<Bytes>),
    /// Each lane's granted region.
    Grants(Vec<Bytes>),
    /// The sender is ready to start.
    Ready,
    /// The server has finished its part of a test in both directions.
    Streamed {
        /// The number of operations.
        operations: u64,
        /// How long they took.
        seconds: f64,
    },
    /// The client has finished.
    Finished {
        /// The number of slots used.
        used_slots: usize,
    },
    /// The server's results.
    Totals {
        /// Messages received.
        received: u64,
        /// CPU time.
        cpu_seconds: f64,
        /// Whether the bytes are correct, if requested.
        verified: Option<bool>,
        /// Changes of counters.
        counters: BTreeMap<String, u64>,
        /// Of the server's operations, in a test in both directions.
        latency: Option<Latency>,
    },
    /// Refuses a request, or reports an error.
    Refused {
        /// Whether the plan is invalid.
        misuse: bool,
        /// The reason, in one line.
        why: String,
    },
}

/// Bytes, encoded as base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Bytes).map_err(de::Error::custom)
    }
}

/// A port, and the index of its GID, which perftest at the other end may need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ListedPort {
    /// An encoded `fabric::verbs::UsablePort`.
    pub(crate) port: Bytes,
    /// `None` if the port uses no GID.
    pub(crate) gid_index: Option<u32>,
}

impl Hello {
    /// Ours.
    pub(crate) fn new(rdma: bool, about: serde_json::Value) -> Hello {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Hello {
            protocol: PROTOCOL.to_owned(),
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            boot: boot.trim().to_owned(),
            rdma,
            about,
        }
    }

    /// Parses a peer's hello, and checks the protocol and its version.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Hello, String> {
        let hello: Hello = serde_json::from_slice(bytes)
            .ok()
            .filter(|hello: &Hello| hello.protocol == PROTOCOL)
            .ok_or("the peer is not `wirelane bench`: unknown protocol")?;
        if hello.version != VERSION {
            return Err(format!(
                "the peer runs `wirelane bench` {} with protocol {}, this end has protocol {VERSION}: run the same \
                version at both ends",
                hello
                    .program
                    .chars()
                    .filter(|letter| !letter.is_control())
                    .take(32)
                    .collect::<String>(),
                hello.version
            ));
        }
        Ok(hello)
    }
}

const PROTOCOL: &str = "wirelane bench";
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_with_a_reason() {
        let hello = Hello::new(false, serde_json::Value::Null);
        let bytes = serde_json::to_vec(&hello).expect("JSON");
        assert_eq!(Hello::parse(&bytes), Ok(hello.clone()));
        let old = Hello { version: 0, program: "0.0.9\u{1b}".to_owned(), ..hello };
        let why =
            Hello::parse(&serde_json::to_vec(&old).expect("JSON")).expect_err("another version");
        assert!(why.contains("0.0.9 with protocol 0"), "{why}");
        assert!(Hello::parse(b"link").is_err());
    }
}
