//! Every setting, one row each: type, default, key, allowed values, and documentation.

use std::net::Ipv6Addr;

use fabric::link::{PeerPolicy, Policy};
use tracing::Level;

use super::peer_policy;
use super::value::{Kind, Value};

/// A row of the table.
#[derive(Debug)]
pub struct Setting {
    /// Its full name, sections first: `transport.rdma_mtu`.
    pub key: &'static str,
    /// What it accepts.
    pub kind: Kind,
    /// What it is for, how to choose, and what can go wrong.
    pub doc: &'static str,
    default: fn() -> Value,
}

impl Setting {
    /// The default.
    pub fn default_value(&self) -> Value {
        (self.default)()
    }

    /// The name without its sections.
    pub fn name(&self) -> &'static str {
        self.key.rsplit('.').next().unwrap_or(self.key)
    }

    /// Why no other values are allowed, if that needs an explanation.
    pub(super) fn why_only(&self) -> &'static str {
        match self.key {
            "transport.rdma_qp_type" => {
                " Links need reliable connections: UD loses messages and cannot write or read, and \
                 DC (DCT) is not implemented."
            }
            _ => "",
        }
    }

    /// Why a valid value is probably a mistake.
    pub(super) fn warn(&self, value: &Value) -> Option<&'static str> {
        match (self.key, value) {
            ("transport.rdma_gid_index", Value::Int(0)) => Some(
                "rdma_gid_index is 0: on RoCE that is the link-local entry (v1 on most NICs), \
                 which no router forwards. Set -1 to let Wirelane choose a RoCE v2 entry, or the \
                 index `wirelane devices` shows for the address you want.",
            ),
            _ => None,
        }
    }
}

/// Declares the typed settings and the table.
macro_rules! settings {
    ($( $(#[doc = $doc:literal])+ $key:literal $name:ident: $ty:ty = $default:expr, $kind:expr; )*) => {
        /// The settings, typed.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings { $( $(#[doc = $doc])+ pub $name: $ty, )* }

        /// Every setting.
        pub const SETTINGS: &[Setting] = &[ $( Setting {
            key: $key,
            kind: $kind,
            doc: concat!($( $doc, "\n" ),+),
            default: || Field::to_value(&<$ty as From<_>>::from($default)),
        }, )* ];

        impl Settings {
            /// From one checked value per row, in the table's order.
            pub(super) fn from_values<'v>(values: impl Iterator<Item = &'v Value>) -> Self {
                let mut values = values;
                Settings { $( $name: Field::from_value(values.next().expect("one per row")), )* }
            }
        }
    };
}

settings! {
    /// Start from a preset: `latency` (inline 256, spin, depth 512) or `throughput` (MTU 4096,
    /// depth 2048, buffers of 8 MiB, shared receive queue). Settings in the file override it.
    "transport.preset" preset: Preset = Preset::None, Kind::Words(&["none", "latency", "throughput"]);
    /// false: use TCP and shared memory only. Leave it true: without a usable device Wirelane falls
    /// back automatically, and reports it.
    "transport.enable_rdma" enable_rdma: bool = true, Kind::Bool;
    /// Whether links use RDMA. prefer: on one host shared memory, else RDMA if both ends have it, else TCP.
    /// require: only RDMA; without it a link is refused with the reason, and ends if RDMA is lost. off: never.
    /// A peer with require and one with off cannot connect.
    "transport.rdma_policy" rdma_policy: Policy = Policy::Prefer,
        Kind::Words(&["require", "prefer", "off"]);
    /// The same for certain peers, by address or network: the first match applies, other peers use
    /// rdma_policy. Without a prefix it is a single address.
    "transport.rdma_peer_policies" rdma_peer_policies: Vec<PeerPolicy> = [], Kind::PeerPolicies;
    /// The device to use, as named by `wirelane devices`. Empty: choose. Names often differ between
    /// nodes, so set it only if necessary.
    "transport.rdma_device" rdma_device: String = "", Kind::Name;
    /// The port to use. 0: the active one. Set it when both ports are active and only one reaches
    /// the peers.
    "transport.rdma_port" rdma_port: u8 = 0u8, Kind::Range(0, 2);
    /// The entry of the GID table to use. -1: choose a routable RoCE v2 entry. A fixed index is the
    /// usual cause of connections that time out: it differs between NICs and moves when addresses
    /// change.
    "transport.rdma_gid_index" rdma_gid_index: i32 = -1, Kind::Range(-1, 255);
    /// Largest packet payload in bytes; lowered to what both ports allow. Larger is faster. On
    /// Ethernet the net device's MTU must be about 100 bytes larger.
    "transport.rdma_mtu" rdma_mtu: u32 = 4096u32, Kind::Numbers(&[256, 512, 1024, 2048, 4096]);
    /// Messages up to this many bytes are copied into the work request, which saves the NIC a read.
    /// Higher costs memory per queue entry; a device with a lower limit uses that.
    "transport.rdma_max_inline_data" rdma_max_inline_data: u32 = 256u32, Kind::Range(0, 512);
    /// Depth of the send queue. Deeper hides longer round trips and costs memory; too shallow
    /// stalls the sender.
    "transport.rdma_max_send_wr" rdma_max_send_wr: u32 = 1024u32, Kind::Range(1, 32_768);
    /// Depth of the receive queue. Too shallow and a burst of messages waits for the receiver.
    "transport.rdma_max_recv_wr" rdma_max_recv_wr: u32 = 1024u32, Kind::Range(1, 32_768);
    /// Maximum number of memory segments of one work request. Each costs queue memory, used or not.
    "transport.rdma_max_sge" rdma_max_sge: u32 = 16u32, Kind::Range(1, 32);
    /// Queue pair type. RC: reliable connections, which links need. UD, DC and DCT are refused.
    "transport.rdma_qp_type" rdma_qp_type: String = "RC", Kind::Words(&["RC"]);
    /// Share one receive queue among all peers of a port, with rdma_recv_buffer_mb of memory. Saves
    /// memory from some dozens of peers on; costs a copy of each message. If messages arrive faster
    /// than they are taken, peers wait.
    "transport.rdma_use_srq" rdma_use_srq: bool = false, Kind::Bool;
    /// true: sleep until the device reports a completion. false: spin briefly, then sleep when
    /// idle, which has lower latency and uses more CPU while busy.
    "transport.rdma_use_event_channel" rdma_use_event_channel: bool = false, Kind::Bool;
    /// MiB of memory for the messages that links send, registered when a port is first used and kept
    /// ready for links. More links register their own. With a limit on locked memory that is less than
    /// four times as much, links register what they need.
    "transport.rdma_send_buffer_mb" rdma_send_buffer_mb: u32 = 4u32, Kind::Range(1, 65_536);
    /// MiB of memory for the messages that links receive, registered and kept ready as that for sending
    /// is. With rdma_use_srq: the memory of the shared receive queue of each port.
    "transport.rdma_recv_buffer_mb" rdma_recv_buffer_mb: u32 = 4u32, Kind::Range(1, 65_536);
    /// States that rdma_service_level is one to which the subnet manager has assigned adaptive routing
    /// (packets take several paths of an InfiniBand fabric). It changes no packet: only the service
    /// level selects adaptive routing. With true, ports on Ethernet are not used for RDMA.
    "transport.rdma_adaptive_routing" rdma_adaptive_routing: bool = false, Kind::Bool;
    /// Traffic class of outgoing packets (on RoCE v2: DSCP times 4, plus ECN). A lossless Ethernet
    /// needs the class that its switches protect; ask their administrator. 0: best effort.
    "transport.rdma_traffic_class" rdma_traffic_class: u8 = 0u8, Kind::Range(0, 255);
    /// InfiniBand service level; on RoCE the priority of VLAN-tagged packets.
    "transport.rdma_service_level" rdma_service_level: u8 = 0u8, Kind::Range(0, 15);
    /// Entry of the partition key table. 0 is the default partition; use another only if the
    /// subnet manager created it.
    "transport.rdma_pkey_index" rdma_pkey_index: u16 = 0u16, Kind::Range(0, 65_535);
    /// How long the NIC waits for an acknowledgement before it retries: 4.096 µs times 2 to this
    /// power (14: 67 ms). Lower detects a dead rail sooner, but may mistake congestion for one.
    "transport.rdma_timeout" rdma_timeout: u8 = 14u8, Kind::Range(1, 31);
    /// How often the NIC retries before the rail counts as dead. 7 means forever on some devices,
    /// so 6 is the maximum.
    "transport.rdma_retry_count" rdma_retry_count: u8 = 6u8, Kind::Range(0, 6);
    /// A rail with operations in flight and no completion for this many milliseconds is dead, even if
    /// the NIC reports no error.
    "transport.rdma_op_timeout_ms" rdma_op_timeout_ms: u32 = 2000u32, Kind::Range(1, 600_000);
    /// Maximum number of RDMA port pairs (rails) of a link, the fastest first. More rails spread large
    /// transfers over more cables; each costs registered memory at both ends.
    "transport.rdma_rails" rdma_rails: u8 = 4u8, Kind::Range(1, 16);
    /// The libfabric provider to use, such as `efa` or `tcp`, as named by `fi_info`; both ends need the
    /// same. Empty: choose. libfabric is loaded if a provider is set here, on hosts with an EFA device,
    /// and for `--transport ofi`, which uses the first of `efa`, `verbs;ofi_rxm` and `tcp` that both have.
    "transport.ofi_provider" ofi_provider: String = "", Kind::Name;
    /// Milliseconds before a failed rail is tried again. Shorter recovers sooner; longer avoids a
    /// flapping rail, for which the time doubles at each failure.
    "transport.rdma_retry_delay_ms" rdma_retry_delay_ms: u32 = 2000u32, Kind::Range(1, 600_000);
    /// A peer that sends nothing for this many milliseconds counts as lost, and its links end. Shorter
    /// detects a lost host sooner, but may mistake a busy one for it; peers send once a second.
    "transport.peer_timeout_ms" peer_timeout_ms: u32 = 30_000u32, Kind::Range(3000, 3_600_000);
    /// Encrypt data over TCP between peers that authenticate with a key: without it the data can be
    /// read and modified on the network. One end that sets it is enough. It costs throughput.
    /// RDMA and shared memory are never encrypted.
    "transport.tcp_encrypt" tcp_encrypt: bool = false, Kind::Bool;
    /// GIDs of the peers that may use RDMA. Empty: all. A peer with RDMA and none of these GIDs is
    /// refused. Peers report their own GIDs, so this prevents mistakes, not attacks: against those
    /// use require_authentication.
    "security.rdma.allowed_gids" allowed_gids: Vec<Ipv6Addr> = [], Kind::Gids;
    /// Refuse peers that do not authenticate with the key. Needs key_file.
    "security.rdma.require_authentication" require_authentication: bool = false, Kind::Bool;
    /// File with the key that all peers share: 64 hexadecimal digits, from `openssl rand -hex 32`,
    /// not readable by other users. With it peers authenticate each other, and the control connection
    /// is encrypted. Empty: no key.
    "security.rdma.key_file" key_file: String = "", Kind::Path;
    /// File with the tokens of clients of the store, one `NAME TOKEN` per line, as for `serve
    /// --token-file`: `wirelane token new` creates lines. It must not be readable by other users. Only
    /// `serve` reads it; clients pass their own file with --token-file. Empty: no tokens.
    "security.token_file" token_file: String = "", Kind::Path;
    /// Log level: `info` has changes, `debug` also their reasons, `trace` everything.
    "log_level" log_level: Level = Level::INFO,
        Kind::Words(&["error", "warn", "info", "debug", "trace"]);
}

/// The row of the setting called `key`.
pub(super) fn row(key: &str) -> usize {
    SETTINGS.iter().position(|setting| setting.key == key).expect("a key of the table")
}

pub(super) const PRESET_KEY: &str = "transport.preset";

/// A preset: a set of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "explained in the setting's documentation")]
pub enum Preset {
    None,
    Latency,
    Throughput,
}

impl Preset {
    pub(super) fn named(value: &Value) -> Option<Self> {
        [Preset::Latency, Preset::Throughput]
            .into_iter()
            .find(|preset| *value == Value::Text(preset.name().to_owned()))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Preset::None => "none",
            Preset::Latency => "latency",
            Preset::Throughput => "throughput",
        }
    }

    /// The values that it sets.
    pub(super) fn values(self) -> Vec<(&'static str, Value)> {
        match self {
            Preset::None => vec![],
            Preset::Latency => vec![
                ("transport.rdma_max_inline_data", Value::Int(256)),
                ("transport.rdma_use_event_channel", Value::Bool(false)),
                ("transport.rdma_max_send_wr", Value::Int(512)),
                ("transport.rdma_max_recv_wr", Value::Int(512)),
            ],
            Preset::Throughput => vec![
                ("transport.rdma_mtu", Value::Int(4096)),
                ("transport.rdma_max_send_wr", Value::Int(2048)),
                ("transport.rdma_max_recv_wr", Value::Int(2048)),
                ("transport.rdma_send_buffer_mb", Value::Int(8)),
                ("transport.rdma_recv_buffer_mb", Value::Int(8)),
                ("transport.rdma_use_srq", Value::Bool(true)),
            ],
        }
    }
}

/// A type of a setting, and its conversion from and to [`Value`]. Values were checked by their [`Kind`]
/// before, so that the conversion cannot fail.
trait Field: Sized {
    fn from_value(value: &Value) -> Self;
    fn to_value(&self) -> Value;
}

impl Field for bool {
    fn from_value(value: &Value) -> Self {
        matches!(value, Value::Bool(true))
    }

    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }
}

macro_rules! number_fields {
    ($($ty:ty),*) => { $(
        impl Field for $ty {
            fn from_value(value: &Value) -> Self {
                let Value::Int(number) = value else { panic!("checked to be a number") };
                Self::try_from(*number).expect("checked to be in its range")
            }

            fn to_value(&self) -> Value {
                Value::Int(i64::from(*self))
            }
        }
    )* };
}
number_fields!(u8, u16, u32, i32);

impl Field for String {
    fn from_value(value: &Value) -> Self {
        word(value).to_owned()
    }

    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl Field for Vec<Ipv6Addr> {
    fn from_value(value: &Value) -> Self {
        let Value::List(items) = value else { panic!("checked to be a list") };
        items.iter().map(|item| item.parse().expect("checked to be a GID")).collect()
    }

    fn to_value(&self) -> Value {
        Value::List(self.iter().map(Ipv6Addr::to_string).collect())
    }
}

impl Field for Policy {
    fn from_value(value: &Value) -> Self {
        let named = |policy: &Policy| policy.name() == word(value);
        Policy::ALL.into_iter().find(named).expect("checked to be a policy")
    }

    fn to_value(&self) -> Value {
        Value::Text(self.name().to_owned())
    }
}

impl Field for Vec<PeerPolicy> {
    fn from_value(value: &Value) -> Self {
        let Value::List(items) = value else { panic!("checked to be a list") };
        let read = |item: &String| peer_policy::read(item).expect("checked to be a peer's policy");
        items.iter().map(read).collect()
    }

    fn to_value(&self) -> Value {
        Value::List(self.iter().map(peer_policy::format).collect())
    }
}

impl Field for Preset {
    fn from_value(value: &Value) -> Self {
        Preset::named(value).unwrap_or(Preset::None)
    }

    fn to_value(&self) -> Value {
        Value::Text(self.name().to_owned())
    }
}

impl Field for Level {
    fn from_value(value: &Value) -> Self {
        word(value).parse().expect("checked to be a level")
    }

    fn to_value(&self) -> Value {
        Value::Text(self.to_string().to_lowercase())
    }
}

fn word(value: &Value) -> &str {
    let Value::Text(text) = value else { panic!("checked to be text") };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_allowed() {
        for setting in SETTINGS {
            let yaml = format!("{}: {}", setting.name(), setting.default_value().to_yaml());
            let node = super::super::yaml::parse(&yaml).unwrap();
            let super::super::yaml::Shape::Map(entries) = node.shape else { panic!() };
            let read = setting.kind.read(&entries[0].1);
            assert_eq!(read, Ok(setting.default_value()), "{}", setting.key);
        }
    }

    #[test]
    fn presets_set_existing_settings() {
        for preset in [Preset::Latency, Preset::Throughput] {
            for (key, _) in preset.values() {
                row(key);
            }
        }
    }
}
