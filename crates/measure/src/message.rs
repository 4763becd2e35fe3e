//! What the two ends say to each other, as JSON over a session.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use report::{Latency, Outcome, Plan};

/// Who somebody is, said in the handshake.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Tells our sessions from links.
    pub(crate) speaks: String,
    /// Changes when the messages do.
    pub(crate) version: u32,
    /// The program's.
    pub(crate) program: String,
    /// Names the host's run, so that two processes of one host know it.
    pub(crate) boot: String,
    /// Whether RDMA can be used there.
    pub(crate) rdma: bool,
    /// What else the program says of itself.
    pub(crate) about: serde_json::Value,
}

/// What is said, in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// Asks for a measurement; with the RDMA ports that there are.
    Ask {
        /// What to measure.
        plan: Box<Plan>,
        /// Ports as `fabric::verbs::UsablePort` writes them.
        ways: Vec<Bytes>,
    },
    /// Asks for a measurement from there towards a third end, with what the caller has shown.
    Relay {
        /// Where that one listens.
        to: String,
        /// What to measure.
        plan: Box<Plan>,
        /// Whether the transport is chosen there; the plan's otherwise.
        choose: bool,
    },
    /// What came of it.
    Relayed(Box<Outcome>),
    /// Asks which RDMA ports there are, of one device or of all.
    Show {
        /// The device.
        device: Option<String>,
    },
    /// These.
    Shown(Vec<ShownPort>),
    /// Agrees, with the ports that there are.
    Agreed {
        /// As above.
        ways: Vec<Bytes>,
    },
    /// Halves of lanes, in the order of rails.
    Offers(Vec<Bytes>),
    /// Each lane's target.
    Grants(Vec<Bytes>),
    /// All is in place.
    Ready,
    /// The end that serves has done its part of a test in both directions.
    Streamed {
        /// Operations.
        operations: u64,
        /// How long they took.
        seconds: f64,
    },
    /// It is over; so many places were used.
    Over {
        /// Places.
        touched: usize,
    },
    /// What the end that serves has seen.
    Totals {
        /// Messages received.
        received: u64,
        /// CPU time.
        cpu_seconds: f64,
        /// Whether the bytes are right, if that was asked.
        verified: Option<bool>,
        /// How far counters moved.
        counters: BTreeMap<String, u64>,
        /// Of its own operations, in a test in both directions.
        latency: Option<Latency>,
    },
    /// Cannot or will not.
    No {
        /// Whether the plan itself cannot be meant.
        misuse: bool,
        /// Why, in a line.
        why: String,
    },
}

/// Bytes, which JSON has no word for.
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

/// A port, and the index of its GID, which the other end's programs may have to be told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownPort {
    /// As `fabric::verbs::UsablePort` writes it.
    pub(crate) way: Bytes,
    /// None where it goes without.
    pub(crate) gid_index: Option<u32>,
}

impl Hello {
    /// Ours.
    pub(crate) fn new(rdma: bool, about: serde_json::Value) -> Hello {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Hello {
            speaks: SPEAKS.to_owned(),
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            boot: boot.trim().to_owned(),
            rdma,
            about,
        }
    }

    /// Somebody's, if it is one of ours and of our time.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Hello, String> {
        let card: Hello = serde_json::from_slice(bytes)
            .ok()
            .filter(|card: &Hello| card.speaks == SPEAKS)
            .ok_or("that is no `wirelane bench`: it speaks something else")?;
        if card.version != VERSION {
            return Err(format!(
                "that `wirelane bench` is of version {}, which speaks {}; this one speaks {VERSION}: run the same \
                 version at both ends",
                card.program
                    .chars()
                    .filter(|letter| !letter.is_control())
                    .take(32)
                    .collect::<String>(),
                card.version
            ));
        }
        Ok(card)
    }
}

const SPEAKS: &str = "wirelane bench";
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_end_is_told_so() {
        let card = Hello::new(false, serde_json::Value::Null);
        let bytes = serde_json::to_vec(&card).expect("JSON");
        assert_eq!(Hello::parse(&bytes), Ok(card.clone()));
        let old = Hello { version: 0, program: "0.0.9\u{1b}".to_owned(), ..card };
        let why =
            Hello::parse(&serde_json::to_vec(&old).expect("JSON")).expect_err("another version");
        assert!(why.contains("0.0.9, which speaks 0"), "{why}");
        assert!(Hello::parse(b"link").is_err());
    }
}
