//! What is different on a lane of datagrams: sends carry the peer's address, messages come behind a
//! header, and anybody who knows the key may send.

use rdma_sys::work::{SendTarget, UdTarget, ibv_wc};

use super::ah::Ah;
use super::attributes::mtu_bytes;
use super::offer::Offer;
use crate::op::Work;

/// The one peer of a lane of datagrams.
pub(super) struct Datagram {
    ah: Ah,
    qpn: u32,
    qkey: u32,
    max_message: usize,
}

/// The device puts the global header before every message, and forty bytes of nothing where a message
/// had none.
pub(super) const HEADER: u32 = 40;

impl Datagram {
    /// `mtu` is an `enum ibv_mtu`.
    pub(super) fn new(ah: Ah, peer: &Offer, mtu: u8) -> Self {
        let max_message = mtu_bytes(mtu) as usize;
        Datagram { ah, qpn: peer.qpn, qkey: peer.qkey, max_message }
    }

    /// One packet. Some devices take more and do not deliver it.
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

    /// Whether the peer sent it, by the number of its queue pair.
    #[inline]
    pub(super) fn sent(&self, arrived: &ibv_wc) -> bool {
        arrived.src_qp == self.qpn
    }
}
