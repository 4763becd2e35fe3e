//! A device: its attributes as libibverbs reports them, or why they could not be queried.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rdma_sys::Errno;
use rdma_sys::consts::*;
use rdma_sys::device::{ibv_device_attr, ibv_device_attr_ex};
use serde::{Serialize, Serializer};

use super::context::{Context, ListedDevice};
use super::gid::{Gid, GidEntry, GidType};
use super::port::{Port, PortState};

/// A device of this machine.
#[derive(Debug, Clone)]
pub struct Device {
    /// The kernel's name, such as `mlx5_0` or `rocep1s0`.
    pub name: String,
    /// `InfiniBand` (also RoCE), `iWARP`, `usNIC` or `unspecified` (EFA).
    pub transport: &'static str,
    /// The node GUID.
    pub node_guid: Guid,
    /// Its attributes and ports, or why they could not be queried.
    pub facts: Result<DeviceFacts, QueryError>,
}

/// The attributes of a device.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the field's own names; ibv_query_device(3) explains each")]
pub struct DeviceFacts {
    pub fw_ver: String,
    pub sys_image_guid: Guid,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub phys_port_cnt: u8,
    pub num_comp_vectors: i32,
    pub device_cap_flags: u32,
    pub atomic_cap: &'static str,
    pub limits: Limits,
    pub extended: Extended,
    pub ports: Vec<Port>,
}

/// Attributes that later versions of verbs added. All zero if the library or driver is older.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the field's own names; ibv_query_device_ex(3) explains each")]
pub struct Extended {
    pub general_odp_caps: u64,
    pub rc_odp_caps: u32,
    pub uc_odp_caps: u32,
    pub ud_odp_caps: u32,
    pub xrc_odp_caps: u32,
    pub completion_timestamp_mask: u64,
    pub hca_core_clock_khz: u64,
    pub device_cap_flags_ex: u64,
    pub max_tso: u32,
    pub max_rwq_indirection_tables: u32,
    pub max_rwq_indirection_table_size: u32,
    pub rx_hash_function: u8,
    pub rx_hash_fields_mask: u64,
    pub max_wq_type_rq: u32,
    pub qp_rate_limit_min_kbps: u32,
    pub qp_rate_limit_max_kbps: u32,
    pub raw_packet_caps: u32,
    pub tm_max_num_tags: u32,
    pub max_cq_count: u16,
    pub max_cq_period_us: u16,
    pub max_dm_size: u64,
}

impl Extended {
    fn new(attr: &ibv_device_attr_ex) -> Self {
        let [rc_odp_caps, uc_odp_caps, ud_odp_caps] = attr.odp_caps.per_transport_caps;
        Extended {
            general_odp_caps: attr.odp_caps.general_caps,
            rc_odp_caps,
            uc_odp_caps,
            ud_odp_caps,
            xrc_odp_caps: attr.xrc_odp_caps,
            completion_timestamp_mask: attr.completion_timestamp_mask,
            hca_core_clock_khz: attr.hca_core_clock,
            device_cap_flags_ex: attr.device_cap_flags_ex,
            max_tso: attr.tso_caps.max_tso,
            max_rwq_indirection_tables: attr.rss_caps.max_rwq_indirection_tables,
            max_rwq_indirection_table_size: attr.rss_caps.max_rwq_indirection_table_size,
            rx_hash_function: attr.rss_caps.rx_hash_function,
            rx_hash_fields_mask: attr.rss_caps.rx_hash_fields_mask,
            max_wq_type_rq: attr.max_wq_type_rq,
            qp_rate_limit_min_kbps: attr.packet_pacing_caps.qp_rate_limit_min,
            qp_rate_limit_max_kbps: attr.packet_pacing_caps.qp_rate_limit_max,
            raw_packet_caps: attr.raw_packet_caps,
            tm_max_num_tags: attr.tm_caps.max_num_tags,
            max_cq_count: attr.cq_mod_caps.max_cq_count,
            max_cq_period_us: attr.cq_mod_caps.max_cq_period,
            max_dm_size: attr.max_dm_size,
        }
    }
}

impl Device {
    pub(super) fn query(listed: &ListedDevice<'_>) -> Self {
        Device {
            name: listed.name(),
            transport: transport(listed.transport()),
            node_guid: Guid(listed.guid()),
            facts: facts(listed),
        }
    }

    /// A device that does not answer.
    pub(super) fn silent(listed: &ListedDevice<'_>, limit: Duration) -> Self {
        Device {
            name: listed.name(),
            transport: transport(listed.transport()),
            node_guid: Guid(listed.guid()),
            facts: Err(QueryError::silent(limit)),
        }
    }

    /// Refuses a device of a type that lanes do not support, with the reason.
    pub(super) fn supported(&self) -> Result<(), String> {
        match self.transport {
            INFINIBAND => Ok(()),
            IWARP => {
                Err("iWARP devices are not supported: they require the RDMA CM to connect, and \
                          have neither write with immediate nor atomics"
                    .to_owned())
            }
            other => Err(format!("it has no reliable connections (transport {other})")),
        }
    }

    /// Refuses a device that cannot transfer data now, with the reason.
    pub fn usable(&self) -> Result<(), String> {
        self.supported()?;
        let facts = self.facts.as_ref().map_err(QueryError::to_string)?;
        if facts.ports.iter().any(|port| port.state == PortState::Active) {
            return Ok(());
        }
        let states: Vec<String> = facts
            .ports
            .iter()
            .map(|port| format!("port {} is {}", port.port, port.state.name()))
            .collect();
        Err(if states.is_empty() { "it has no port".to_owned() } else { states.join(", ") })
    }
}

fn facts(listed: &ListedDevice<'_>) -> Result<DeviceFacts, QueryError> {
    let context = listed.open().map_err(|errno| QueryError::open(&listed.node(), errno))?;
    let all = context.attributes().map_err(|errno| QueryError::query("the device", errno))?;
    let ports = ports(&context, all.orig_attr.phys_port_cnt)?;
    Ok(DeviceFacts::new(&all, context.completion_vectors(), ports))
}

impl DeviceFacts {
    fn new(all: &ibv_device_attr_ex, num_comp_vectors: i32, ports: Vec<Port>) -> Self {
        let attr = &all.orig_attr;
        DeviceFacts {
            fw_ver: c_text(&attr.fw_ver),
            sys_image_guid: Guid(u64::from_be(attr.sys_image_guid)),
            vendor_id: attr.vendor_id,
            vendor_part_id: attr.vendor_part_id,
            hw_ver: attr.hw_ver,
            phys_port_cnt: attr.phys_port_cnt,
            num_comp_vectors,
            device_cap_flags: attr.device_cap_flags,
            atomic_cap: atomic_cap(attr.atomic_cap),
            limits: Limits::new(attr),
            extended: Extended::new(all),
            ports,
        }
    }

    /// A device with these ports and nothing else, for tests.
    #[cfg(test)]
    pub(super) fn example(ports: Vec<Port>) -> Self {
        DeviceFacts::new(&super::context::no_attributes(), 1, ports)
    }
}

fn ports(context: &Context, count: u8) -> Result<Vec<Port>, QueryError> {
    let mut attrs = Vec::new();
    for port in 1..=count {
        let attr = context
            .port(port)
            .map_err(|errno| QueryError::query(&format!("port {port}"), errno))?;
        attrs.push((port, attr));
    }
    // Limits what is allocated, whatever length the driver reports.
    let entries = attrs
        .iter()
        .map(|(_, attr)| usize::try_from(attr.gid_tbl_len).unwrap_or(0))
        .fold(0, usize::saturating_add)
        .min(MAX_GIDS);
    let table = context.gid_table(entries).and_then(Result::ok);
    let gids = |port: u8, length: i32| match &table {
        Some(table) => table
            .iter()
            .filter(|entry| entry.port_num == u32::from(port))
            .map(|entry| GidEntry {
                index: entry.gid_index,
                gid: Gid(entry.gid.raw),
                kind: GidType::from_verbs(entry.gid_type),
                netdev: netdev_name(entry.ndev_ifindex),
            })
            .collect(),
        None => untyped_gids(context, port, length),
    };
    Ok(attrs
        .iter()
        .map(|(port, attr)| Port::new(*port, attr, gids(*port, attr.gid_tbl_len)))
        .collect())
}

/// The GID table entry by entry, without types: libraries before rdma-core 32 report no more.
fn untyped_gids(context: &Context, port: u8, length: i32) -> Vec<GidEntry> {
    (0..length.clamp(0, MAX_GIDS as i32))
        .filter_map(|index| {
            let gid = Gid(context.gid(port, index).ok()?);
            let index = index.unsigned_abs();
            (!gid.is_empty()).then_some(GidEntry { index, gid, kind: None, netdev: None })
        })
        .collect()
}

fn netdev_name(index: u32) -> Option<String> {
    if index == 0 {
        return None;
    }
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None);
    rustix::net::netdevice::index_to_name(socket.ok()?, index).ok()
}

/// Why a listed device could not be queried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryError {
    call: String,
    errno: Errno,
    fix: Option<&'static str>,
}

impl QueryError {
    /// Whether access was denied.
    pub(super) fn is_denied(&self) -> bool {
        self.errno.is_denied()
    }

    fn silent(limit: Duration) -> Self {
        let call = format!("query the device, no answer within {limit:?}");
        let fix = "check the kernel log (`dmesg`) for the driver's error, and reset the device";
        QueryError { call, errno: Errno(ETIMEDOUT), fix: Some(fix) }
    }

    fn query(what: &str, errno: Errno) -> Self {
        QueryError { call: format!("query {what}"), errno, fix: None }
    }

    /// libibverbs tries several paths to the node and reports the error of the last one; opening the node
    /// directly returns the real error.
    pub(super) fn open(node: &Path, errno: Errno) -> Self {
        let direct = File::options().read(true).write(true).open(node);
        let errno = direct.err().and_then(|error| error.raw_os_error()).map_or(errno, Errno);
        let fix = match errno {
            errno if errno.is_denied() => {
                Some("give this user access to it, by the file's group or a udev rule")
            }
            Errno(ENOENT) => Some("in a container, pass the device in"),
            _ => None,
        };
        QueryError { call: format!("open {}", node.display()), errno, fix }
    }
}

const ETIMEDOUT: i32 = 110;
const ENOENT: i32 = 2;

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.call, self.errno)?;
        self.fix.map_or(Ok(()), |fix| write!(f, " — {fix}"))
    }
}

impl std::error::Error for QueryError {}

#[cfg(test)]
impl QueryError {
    pub(super) fn absent_example() -> Self {
        QueryError::open(Path::new("/dev/infiniband/nowhere"), Errno(5))
    }
}

/// A 64-bit identifier, displayed in four groups as usual for GUIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guid(pub u64);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g, h, i] = self.0.to_be_bytes();
        write!(f, "{a:02x}{b:02x}:{c:02x}{d:02x}:{e:02x}{g:02x}:{h:02x}{i:02x}")
    }
}

impl Serialize for Guid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Declares the device's limits: each field has the name of the C field.
macro_rules! limits {
    ($( $name:ident: $ty:ty, )*) => {
        /// The device's limits.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
        #[allow(missing_docs, reason = "the field's own names; ibv_query_device(3) explains each")]
        pub struct Limits { $( pub $name: $ty, )* }

        impl Limits {
            pub(super) fn new(attr: &ibv_device_attr) -> Self {
                Limits { $( $name: attr.$name, )* }
            }
        }
    };
}

limits! {
    max_mr_size: u64,
    page_size_cap: u64,
    max_qp: i32,
    max_qp_wr: i32,
    max_sge: i32,
    max_sge_rd: i32,
    max_cq: i32,
    max_cqe: i32,
    max_mr: i32,
    max_pd: i32,
    max_qp_rd_atom: i32,
    max_ee_rd_atom: i32,
    max_res_rd_atom: i32,
    max_qp_init_rd_atom: i32,
    max_ee_init_rd_atom: i32,
    max_ee: i32,
    max_rdd: i32,
    max_mw: i32,
    max_raw_ipv6_qp: i32,
    max_raw_ethy_qp: i32,
    max_mcast_grp: i32,
    max_mcast_qp_attach: i32,
    max_total_mcast_qp_attach: i32,
    max_ah: i32,
    max_fmr: i32,
    max_map_per_fmr: i32,
    max_srq: i32,
    max_srq_wr: i32,
    max_srq_sge: i32,
    max_pkeys: u16,
    local_ca_ack_delay: u8,
}

fn transport(value: i32) -> &'static str {
    match value {
        IBV_TRANSPORT_IB => INFINIBAND,
        IBV_TRANSPORT_IWARP => IWARP,
        IBV_TRANSPORT_USNIC => "usNIC",
        IBV_TRANSPORT_USNIC_UDP => "usNIC UDP",
        IBV_TRANSPORT_UNSPECIFIED => "unspecified",
        _ => "unknown",
    }
}

fn atomic_cap(value: u32) -> &'static str {
    match value {
        IBV_ATOMIC_NONE => "ATOMIC_NONE",
        IBV_ATOMIC_HCA => "ATOMIC_HCA",
        IBV_ATOMIC_GLOB => "ATOMIC_GLOB",
        _ => "unknown",
    }
}

/// The text of a C array up to its NUL, or all of it if there is none.
fn c_text(array: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> =
        array.iter().take_while(|byte| **byte != 0).map(|byte| byte.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Also RoCE, which uses the InfiniBand transport over Ethernet.
const INFINIBAND: &str = "InfiniBand";
const IWARP: &str = "iWARP";
/// More than any known device has (1024 on soft-RoCE, 256 on ConnectX).
const MAX_GIDS: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_displayed_in_four_groups() {
        assert_eq!(Guid(0xccc2_a7ff_fe25_d8c4).to_string(), "ccc2:a7ff:fe25:d8c4");
    }

    #[test]
    fn the_error_for_an_absent_node_has_its_path_and_a_fix() {
        assert_eq!(
            QueryError::absent_example().to_string(),
            "cannot open /dev/infiniband/nowhere: no such file or directory (errno 2) — in a \
             container, pass the device in"
        );
    }
}
