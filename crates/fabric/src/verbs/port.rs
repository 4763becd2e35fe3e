//! A port of a device.

use rdma_sys::consts::*;
use rdma_sys::device::ibv_port_attr;
use serde::Serialize;

use super::gid::GidEntry;

/// A port as libibverbs describes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the field's own names; ibv_query_port(3) explains each")]
pub struct Port {
    pub port: u8,
    pub state: PortState,
    pub phys_state: &'static str,
    pub link_layer: LinkLayer,
    /// Bytes.
    pub max_mtu: u32,
    /// Bytes.
    pub active_mtu: u32,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    /// The link width in physical lanes; absent if the driver reports an unknown width.
    pub active_width: Option<u8>,
    /// Per physical lane, gigabits per second; absent if the driver reports an unknown speed.
    pub active_speed_gbps: Option<f64>,
    pub max_msg_sz: u32,
    pub port_cap_flags: u32,
    pub port_cap_flags2: u16,
    pub max_vl_num: u8,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub sm_sl: u8,
    pub pkey_tbl_len: u16,
    pub gid_tbl_len: i32,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    /// The filled entries of the GID table.
    pub gids: Vec<GidEntry>,
}

impl Port {
    pub(super) fn new(port: u8, attr: &ibv_port_attr, gids: Vec<GidEntry>) -> Self {
        Port {
            port,
            state: PortState::from_verbs(attr.state),
            phys_state: phys_state(attr.phys_state),
            link_layer: LinkLayer::from_verbs(attr.link_layer),
            max_mtu: mtu_bytes(attr.max_mtu),
            active_mtu: mtu_bytes(attr.active_mtu),
            lid: attr.lid,
            sm_lid: attr.sm_lid,
            lmc: attr.lmc,
            active_width: width(attr.active_width),
            active_speed_gbps: speed_gbps(attr.active_speed),
            max_msg_sz: attr.max_msg_sz,
            port_cap_flags: attr.port_cap_flags,
            port_cap_flags2: attr.port_cap_flags2,
            max_vl_num: attr.max_vl_num,
            bad_pkey_cntr: attr.bad_pkey_cntr,
            qkey_viol_cntr: attr.qkey_viol_cntr,
            sm_sl: attr.sm_sl,
            pkey_tbl_len: attr.pkey_tbl_len,
            gid_tbl_len: attr.gid_tbl_len,
            subnet_timeout: attr.subnet_timeout,
            init_type_reply: attr.init_type_reply,
            gids,
        }
    }
}

impl Port {
    /// Over the whole link width, in megabits per second; 0 if the driver does not report it.
    pub fn rate_mbps(&self) -> u64 {
        let lane = self.active_speed_gbps.unwrap_or(0.0) * 1000.0;
        lane as u64 * u64::from(self.active_width.unwrap_or(0))
    }

    /// An ordinary active port, for tests.
    #[cfg(test)]
    pub(super) fn example(port: u8) -> Self {
        let attr = ibv_port_attr {
            state: IBV_PORT_ACTIVE,
            max_mtu: IBV_MTU_4096,
            active_mtu: IBV_MTU_4096,
            gid_tbl_len: 16,
            port_cap_flags: 0,
            max_msg_sz: 1 << 30,
            bad_pkey_cntr: 0,
            qkey_viol_cntr: 0,
            pkey_tbl_len: 1,
            lid: 0,
            sm_lid: 0,
            lmc: 0,
            max_vl_num: 1,
            sm_sl: 0,
            subnet_timeout: 0,
            init_type_reply: 0,
            active_width: 2,
            active_speed: 32,
            phys_state: 5,
            link_layer: IBV_LINK_LAYER_ETHERNET,
            flags: 0,
            port_cap_flags2: 0,
        };
        Port::new(port, &attr, Vec::new())
    }
}

/// The logical state of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs, reason = "the field's own names")]
pub enum PortState {
    Nop,
    Down,
    Init,
    Armed,
    Active,
    ActiveDefer,
    Unknown,
}

impl PortState {
    fn from_verbs(value: u32) -> Self {
        match value {
            IBV_PORT_NOP => PortState::Nop,
            IBV_PORT_DOWN => PortState::Down,
            IBV_PORT_INIT => PortState::Init,
            IBV_PORT_ARMED => PortState::Armed,
            IBV_PORT_ACTIVE => PortState::Active,
            IBV_PORT_ACTIVE_DEFER => PortState::ActiveDefer,
            _ => PortState::Unknown,
        }
    }

    /// The name that sysfs and ibv_devinfo use.
    pub fn name(self) -> &'static str {
        match self {
            PortState::Nop => "NOP",
            PortState::Down => "DOWN",
            PortState::Init => "INIT",
            PortState::Armed => "ARMED",
            PortState::Active => "ACTIVE",
            PortState::ActiveDefer => "ACTIVE_DEFER",
            PortState::Unknown => "UNKNOWN",
        }
    }
}

/// The link layer of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the field's own names")]
pub enum LinkLayer {
    InfiniBand,
    Ethernet,
    /// EFA, and drivers that do not report it.
    Unknown,
}

impl LinkLayer {
    fn from_verbs(value: u8) -> Self {
        match value {
            IBV_LINK_LAYER_INFINIBAND => LinkLayer::InfiniBand,
            IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
            _ => LinkLayer::Unknown,
        }
    }

    /// The name that sysfs uses.
    pub fn name(self) -> &'static str {
        match self {
            LinkLayer::InfiniBand => "InfiniBand",
            LinkLayer::Ethernet => "Ethernet",
            LinkLayer::Unknown => "Unknown",
        }
    }
}

/// Bytes of an `enum ibv_mtu`; 0 for a value that does not exist.
fn mtu_bytes(mtu: u32) -> u32 {
    match mtu {
        IBV_MTU_256..=IBV_MTU_4096 => 128 << mtu,
        _ => 0,
    }
}

/// InfiniBand specification, PortPhysicalState.
fn phys_state(value: u8) -> &'static str {
    match value {
        1 => "SLEEP",
        2 => "POLLING",
        3 => "DISABLED",
        4 => "PORT_CONFIGURATION_TRAINING",
        5 => "LINK_UP",
        6 => "LINK_ERROR_RECOVERY",
        7 => "PHY_TEST",
        _ => "UNKNOWN",
    }
}

/// InfiniBand specification, LinkWidthActive.
fn width(value: u8) -> Option<u8> {
    match value {
        1 => Some(1),
        2 => Some(4),
        4 => Some(8),
        8 => Some(12),
        16 => Some(2),
        _ => None,
    }
}

/// InfiniBand specification, LinkSpeedActive and LinkSpeedExtActive, as ibv_devinfo reads them.
fn speed_gbps(value: u8) -> Option<f64> {
    match value {
        1 => Some(2.5),
        2 => Some(5.0),
        4 | 8 => Some(10.0),
        16 => Some(14.0),
        32 => Some(25.0),
        64 => Some(50.0),
        128 => Some(100.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtu_codes_are_converted_to_bytes() {
        assert_eq!(mtu_bytes(IBV_MTU_256), 256);
        assert_eq!(mtu_bytes(IBV_MTU_4096), 4096);
        assert_eq!(mtu_bytes(0), 0);
        assert_eq!(mtu_bytes(77), 0);
    }
}
