//! A port of an RDMA device.

use serde::Serialize;

use crate::{Counter, Gid, Rate, Seen};

/// A port: what it is connected to, and how.
#[derive(Debug, Clone, Serialize)]
pub struct Port {
    /// From 1.
    pub number: u32,
    /// Whether it carries traffic.
    pub state: Seen<PortState>,
    /// Whether there is a wire with someone at its other end.
    pub phys_state: Seen<PhysState>,
    /// What it runs at; of a port that is down, what the driver makes up.
    pub rate: Seen<Rate>,
    /// InfiniBand, Ethernet, or (EFA) neither.
    pub link_layer: Seen<LinkLayer>,
    /// InfiniBand: its address, given by the subnet manager; 0 when there is none.
    pub lid: Seen<u32>,
    /// InfiniBand: the subnet manager's address; 0 when there is none.
    pub sm_lid: Seen<u32>,
    /// What the port can do, as a mask (PortInfo).
    pub cap_mask: Seen<u64>,
    /// The net device of the port, by its GIDs, by its parent, or by its number on the card.
    pub netdev: Option<String>,
    /// The largest packet now. On RoCE by the net device's MTU; elsewhere unknown to files.
    pub active_mtu: Option<u32>,
    /// The GID table without its empty entries.
    pub gids: Vec<Gid>,
    /// How many entries the GID table has.
    pub gid_table_len: u32,
    /// Partition keys that are set, without the empty entries.
    pub pkeys: Vec<u16>,
    /// Counters as their files tell, `counters/` first.
    pub counters: Vec<Counter>,
}

/// Whether a port carries traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "the field's own names, with no more to say of them")]
pub enum PortState {
    Nop,
    Down,
    /// Physically up, with no subnet manager yet.
    Init,
    Armed,
    Active,
    ActiveDefer,
}

/// Whether there is a wire with someone at its other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the field's own names, with no more to say of them")]
pub enum PhysState {
    Sleep,
    /// Looks for a partner and finds none.
    Polling,
    /// Switched off at this end.
    Disabled,
    PortConfigurationTraining,
    LinkUp,
    LinkErrorRecovery,
    PhyTest,
    Unknown,
}

/// What is below the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the field's own names, with no more to say of them")]
pub enum LinkLayer {
    InfiniBand,
    Ethernet,
    /// Neither: EFA.
    Unknown,
}

impl Port {
    /// Whether it carries traffic now.
    pub fn is_active(&self) -> bool {
        self.state == Seen::Value(PortState::Active)
    }

    /// The counter of a name, whatever folder it is in.
    pub fn counter(&self, name: &str) -> Option<&Counter> {
        self.counters.iter().find(|counter| counter.name == name)
    }
}

impl PortState {
    /// Reads `4: ACTIVE`, by its number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text.split(':').next()?.trim() {
            "0" => PortState::Nop,
            "1" => PortState::Down,
            "2" => PortState::Init,
            "3" => PortState::Armed,
            "4" => PortState::Active,
            "5" => PortState::ActiveDefer,
            _ => return None,
        })
    }

    /// As the kernel writes it.
    pub fn name(self) -> &'static str {
        match self {
            PortState::Nop => "NOP",
            PortState::Down => "DOWN",
            PortState::Init => "INIT",
            PortState::Armed => "ARMED",
            PortState::Active => "ACTIVE",
            PortState::ActiveDefer => "ACTIVE_DEFER",
        }
    }
}

impl PhysState {
    /// Reads `5: LinkUp`, by its number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text.split(':').next()?.trim().parse::<u32>().ok()? {
            1 => PhysState::Sleep,
            2 => PhysState::Polling,
            3 => PhysState::Disabled,
            4 => PhysState::PortConfigurationTraining,
            5 => PhysState::LinkUp,
            6 => PhysState::LinkErrorRecovery,
            7 => PhysState::PhyTest,
            _ => PhysState::Unknown,
        })
    }
}

impl LinkLayer {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "InfiniBand" => LinkLayer::InfiniBand,
            "Ethernet" => LinkLayer::Ethernet,
            "Unknown" | "Unspecified" => LinkLayer::Unknown,
            _ => return None,
        })
    }

    /// As the kernel writes it.
    pub fn name(self) -> &'static str {
        match self {
            LinkLayer::InfiniBand => "InfiniBand",
            LinkLayer::Ethernet => "Ethernet",
            LinkLayer::Unknown => "Unknown",
        }
    }
}
