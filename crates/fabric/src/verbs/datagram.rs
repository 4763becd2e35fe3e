//! The differences of a datagram lane: sends contain the peer's address, messages arrive after a
//! header, and any sender that has the queue key may send.

use rdma_sys::work::{SendTarget, UdTarget, ibv_wc};

use super::ah::Ah;
use super::attributes::mtu_bytes;
use super::offer::Offer;
use crate::op::Work;

/// The peer of a datagram lane.
pub(super) struct Datagram {
    ah: Ah,
    qpn: u32,
    qkey: u32,
    max_message: usize,
}

/// The device writes the global routing header before every message, or 40 undefined bytes if there was none.
pub(super) const GRH_BYTES: u32 = 40;

impl Datagram {
    /// `mtu` is an `enum ibv_mtu`.
    pub(super) fn new(ah: Ah, peer: &Offer, mtu: u8) -> Self {
        let max_message = mtu_bytes(mtu) as usize;
        Datagram { ah, qpn: peer.qpn, qkey: peer.qkey, max_message }
    }

    /// One packet. Some devices accept longer messages and do not deliver them.
    pub(super) fn max_message(&self) -> usize {
        self.max_message
    }

    pub(super) fn allows(&self, work: &Work) -> bool {
        matches!(work, Work::Send { .. } | Work::Receive { .. })
    }

    #[inline]
    pub(super) fn target(&self) -> SendTarget {
        let (remote_qpn, remote_qkey) = (self.qpn, self.qkey);
        SendTarget { ud: UdTarget { ah: self.ah.as_ptr(), remote_qpn, remote_qkey } }
    }

    /// Whether the message is from the peer, by its queue pair number.
    #[inline]
    pub(super) fn is_from_peer(&self, arrived: &ibv_wc) -> bool {
        arrived.src_qp == self.qpn
    }
}
