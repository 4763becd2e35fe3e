//! The attributes of a queue pair in each state, and the peer's address: pure functions of the two
//! offers and the settings, so that InfiniBand and RoCE v1, which the lab lacks, can be tested.

use rdma_sys::consts::*;
use rdma_sys::device::ibv_gid;
use rdma_sys::objects::{ibv_ah_attr, ibv_global_route, ibv_qp_attr};

use super::config::{Config, QpType};
use super::offer::Offer;
use super::port::LinkLayer;
use super::zero::zeroed;

/// Both ends of a lane, as seen from one of them.
pub(super) struct Route<'a> {
    pub(super) config: &'a Config,
    /// The local port.
    pub(super) port: u8,
    /// The index of the local GID in the port's table.
    pub(super) gid_index: u8,
    /// The number of reads and atomics that the local device can have in flight.
    pub(super) max_initiated: u8,
    pub(super) ours: Offer,
    pub(super) peer: Offer,
}

/// Attributes, and the mask of those to set.
pub(super) type AttributeChange = (ibv_qp_attr, i32);

impl Route<'_> {
    /// From RESET to INIT.
    pub(super) fn init(&self) -> AttributeChange {
        let mut attr: ibv_qp_attr = zeroed();
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = self.port;
        attr.pkey_index = self.config.pkey_index;
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        if self.ours.qp_type == QpType::Ud {
            attr.qkey = self.ours.qkey;
            return (attr, mask | IBV_QP_QKEY);
        }
        attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        // Devices without atomics refuse the flag.
        if self.ours.atomics {
            attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
        }
        (attr, mask | IBV_QP_ACCESS_FLAGS)
    }

    /// From INIT to RTR, ready to receive.
    pub(super) fn ready_to_receive(&self) -> AttributeChange {
        let mut attr: ibv_qp_attr = zeroed();
        attr.qp_state = IBV_QPS_RTR;
        if self.ours.qp_type == QpType::Ud {
            return (attr, IBV_QP_STATE);
        }
        attr.ah_attr = self.address();
        attr.path_mtu = self.mtu().into();
        attr.dest_qp_num = self.peer.qpn;
        attr.rq_psn = self.peer.psn;
        attr.max_dest_rd_atomic = self.ours.rd_atomic;
        attr.min_rnr_timer = match self.ours.max_receive {
            Some(_) => SRQ_RNR_TIMER,
            None => RNR_TIMER,
        };
        let mask = IBV_QP_STATE
            | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        (attr, mask)
    }

    /// From RTR to RTS, ready to send.
    pub(super) fn ready_to_send(&self) -> AttributeChange {
        let mut attr: ibv_qp_attr = zeroed();
        attr.qp_state = IBV_QPS_RTS;
        attr.sq_psn = self.ours.psn;
        if self.ours.qp_type == QpType::Ud {
            return (attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
        }
        attr.timeout = self.config.timeout;
        attr.retry_cnt = self.config.retry_count;
        attr.rnr_retry = if self.peer.max_receive.is_some() { RNR_FOREVER } else { RNR_RETRY };
        attr.max_rd_atomic = self.max_initiated.min(self.peer.rd_atomic);
        let mask = IBV_QP_STATE
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_SQ_PSN
            | IBV_QP_MAX_QP_RD_ATOMIC;
        (attr, mask)
    }

    /// The peer's address: by LID within an InfiniBand subnet, by GID otherwise.
    pub(super) fn address(&self) -> ibv_ah_attr {
        let mut address: ibv_ah_attr = zeroed();
        address.port_num = self.port;
        address.sl = self.config.service_level;
        if self.ours.link_layer == LinkLayer::InfiniBand {
            // Between subnets this reaches only peers whose LID is routable: verbs cannot query the LID
            // of a router.
            address.dlid = self.peer.lid;
        }
        if self.is_global() {
            address.is_global = 1;
            address.grh = ibv_global_route {
                dgid: ibv_gid { raw: self.peer.gid.0 },
                flow_label: 0,
                sgid_index: self.gid_index,
                hop_limit: HOP_LIMIT,
                traffic_class: self.config.traffic_class,
            };
        }
        address
    }

    /// The smaller MTU of both ends, as an `enum ibv_mtu`.
    pub(super) fn mtu(&self) -> u8 {
        self.ours.mtu.min(self.peer.mtu)
    }

    /// Refuses ends that cannot be connected, with the reason.
    pub(super) fn check(&self) -> Result<(), String> {
        let (ours, peer) = (&self.ours, &self.peer);
        if ours.qp_type != peer.qp_type {
            let (ours, peer) = (ours.qp_type, peer.qp_type);
            return Err(format!("the peer's queue pair is {peer:?}, the local one {ours:?}"));
        }
        if ours.link_layer != peer.link_layer {
            let (ours, peer) = (ours.link_layer.name(), peer.link_layer.name());
            return Err(format!("the peer's port is {peer}, the local one {ours}"));
        }
        if self.is_global() && (ours.gid.is_empty() || peer.gid.is_empty()) {
            let whose = if peer.gid.is_empty() { "the peer's port" } else { "the local port" };
            return Err(format!("{whose} has no GID"));
        }
        Ok(())
    }

    /// Whether packets need the global header: on Ethernet always, on InfiniBand between subnets.
    fn is_global(&self) -> bool {
        let different_subnets = !self.ours.gid.is_empty()
            && !self.peer.gid.is_empty()
            && self.ours.gid.0[..8] != self.peer.gid.0[..8];
        self.ours.link_layer == LinkLayer::Ethernet || different_subnets
    }
}

/// The `enum ibv_mtu` of a size in bytes, rounded down.
pub(super) fn mtu_code(bytes: u32) -> u8 {
    let code = bytes.max(256).ilog2() - 7;
    code.min(IBV_MTU_4096) as u8
}

/// Bytes of an `enum ibv_mtu`.
pub(super) fn mtu_bytes(code: u8) -> u32 {
    128 << code
}

/// If the peer has no receive posted, the device retries after 164 ms, six times: a receive that is half a second
/// late is still used; without one, the send fails after a second. (InfiniBand specification, RNR NAK timer
/// field: 28 is 163.84 ms; a retry count of 7 means forever.)
const RNR_TIMER: u8 = 28;
const RNR_RETRY: u8 = 6;
/// A shared queue may be empty for a moment, whatever this peer does: the device retries after 0.64 ms, until it is not.
const SRQ_RNR_TIMER: u8 = 12;
const RNR_FOREVER: u8 = 7;
const HOP_LIMIT: u8 = 64;

#[cfg(test)]
mod tests {
    use super::super::gid::Gid;
    use super::super::offer::tests::example;
    use super::*;

    fn gid(prefix: u8, host: u8) -> Gid {
        let mut gid = [0; 16];
        (gid[0], gid[7], gid[15]) = (0xfe, prefix, host);
        Gid(gid)
    }

    fn route<'a>(config: &'a Config, link_layer: LinkLayer) -> Route<'a> {
        let ours = Offer { link_layer, gid: gid(1, 1), lid: 11, psn: 5, ..example() };
        let peer = Offer { qpn: 77, lid: 22, gid: gid(1, 2), psn: 6, mtu: 3, rd_atomic: 4, ..ours };
        Route { config, port: 2, gid_index: 3, max_initiated: 16, ours, peer }
    }

    fn infiniband(config: &Config) -> Route<'_> {
        route(config, LinkLayer::InfiniBand)
    }

    fn ethernet(config: &Config) -> Route<'_> {
        route(config, LinkLayer::Ethernet)
    }

    #[test]
    fn infiniband_within_a_subnet_uses_lid() {
        let config = Config { service_level: 4, ..Config::default() };
        let address = infiniband(&config).address();
        assert_eq!((address.is_global, address.dlid, address.sl, address.port_num), (0, 22, 4, 2));
    }

    #[test]
    fn infiniband_between_subnets_has_a_global_header() {
        let config = Config { traffic_class: 8, ..Config::default() };
        let mut route = infiniband(&config);
        route.peer.gid = gid(2, 2);
        let address = route.address();
        assert_eq!((address.is_global, address.dlid), (1, 22));
        assert_eq!((address.grh.sgid_index, address.grh.traffic_class), (3, 8));
        route.peer.gid = Gid([0; 16]);
        assert_eq!(route.address().is_global, 0, "without a GID only the LID is used");
        assert_eq!(route.check(), Ok(()));
    }

    /// RoCE v1 and v2 differ only in the entry of the local GID table.
    #[test]
    fn ethernet_always_uses_gid() {
        let config = Config { traffic_class: 104, service_level: 3, ..Config::default() };
        let address = ethernet(&config).address();
        assert_eq!((address.is_global, address.dlid, address.sl), (1, 0, 3));
        assert_eq!(address.grh.dgid.raw, gid(1, 2).0);
        let grh = (address.grh.sgid_index, address.grh.hop_limit, address.grh.traffic_class);
        assert_eq!(grh, (3, 64, 104));
    }

    #[test]
    fn limits_of_both_ends_are_respected() {
        let config = Config::default();
        let mut route = ethernet(&config);
        assert_eq!(route.ready_to_send().0.max_rd_atomic, 4, "the peer's limit");
        route.max_initiated = 2;
        assert_eq!(route.ready_to_send().0.max_rd_atomic, 2, "the local limit");
        assert_eq!(route.ready_to_receive().0.max_dest_rd_atomic, 128, "served locally");
        assert_eq!(route.ready_to_receive().0.path_mtu, IBV_MTU_1024, "the smaller MTU");
    }

    #[test]
    fn packet_sequence_numbers_are_those_of_the_offers() {
        let config = Config { pkey_index: 9, timeout: 17, retry_count: 3, ..Config::default() };
        let route = ethernet(&config);
        let (receive, send) = (route.ready_to_receive().0, route.ready_to_send().0);
        assert_eq!((receive.rq_psn, send.sq_psn, receive.dest_qp_num), (6, 5, 77));
        assert_eq!((send.timeout, send.retry_cnt, send.rnr_retry), (17, 3, 6));
        assert_eq!((route.init().0.pkey_index, route.init().0.port_num), (9, 2));
    }

    #[test]
    fn a_datagram_queue_pair_has_a_qkey_and_no_peer() {
        let config = Config::default();
        let mut route = ethernet(&config);
        (route.ours.qp_type, route.ours.qkey) = (QpType::Ud, 0x55);
        let (attr, mask) = route.init();
        assert_eq!(
            (attr.qkey, mask & IBV_QP_QKEY, mask & IBV_QP_ACCESS_FLAGS),
            (0x55, IBV_QP_QKEY, 0)
        );
        assert_eq!(route.ready_to_receive().1, IBV_QP_STATE);
        assert!(route.check().unwrap_err().contains("Rc, the local one Ud"));
    }

    #[test]
    fn ends_that_cannot_be_connected_are_refused_with_the_reason() {
        let config = Config::default();
        let mut route = ethernet(&config);
        route.peer.gid = Gid([0; 16]);
        assert_eq!(route.check(), Err("the peer's port has no GID".to_owned()));
        route.peer.link_layer = LinkLayer::InfiniBand;
        assert!(route.check().unwrap_err().contains("is InfiniBand, the local one Ethernet"));
    }

    #[test]
    fn the_mtu_is_rounded_down() {
        assert_eq!([256, 1500, 4096, 9000].map(mtu_code), [1, 3, 5, 5]);
        assert_eq!([1, 3, 5].map(mtu_bytes), [256, 1024, 4096]);
    }
}
