//! Builds the work requests of an operation.

use rdma_sys::consts::*;
use rdma_sys::work::{AtomicTarget, RdmaTarget, SendTarget, ibv_send_wr, ibv_sge};

use super::chain::Chain;
use super::mr::lkey;
use super::zero::zeroed;
use crate::op::Work;
use crate::remote::{AccessMethod, Target};
use crate::splitter::{Splitter, WorkRequestLimits, WorkRequestRange};

/// The limits of a work request.
pub(super) struct RequestLimits {
    /// The domain whose keys it uses.
    pub(super) domain: u32,
    pub(super) depth: u32,
    pub(super) max_message: u32,
    pub(super) send_sge: u32,
    pub(super) read_sge: u32,
    pub(super) inline: u32,
}

/// Builds the request for the next range of an operation; adds its SGEs to the chain.
#[inline]
pub(super) fn request(
    chain: &mut Chain<ibv_send_wr>,
    limits: &RequestLimits,
    splitter: &mut Splitter,
    work: &Work,
) -> (ibv_send_wr, WorkRequestRange) {
    let is_read = matches!(work, Work::Read { .. });
    let sges = if is_read { limits.read_sge } else { limits.send_sge };
    let most = WorkRequestLimits { bytes: limits.max_message, sges: sges as usize };
    let range = splitter.next(work.local(), most, |slice, from, length| {
        let addr = slice.address().wrapping_add(from).addr() as u64;
        chain.add_sge(ibv_sge { addr, length, lkey: lkey(slice, limits.domain) });
    });
    let mut request: ibv_send_wr = zeroed();
    request.num_sge = range.sges as i32;
    let imm = set_target(&mut request, work, range.offset as u64).filter(|_| range.last);
    if let Some(imm) = imm {
        request.imm_data = imm.to_be();
        // Each opcode with immediate data follows the one without, see the assertion below.
        request.opcode += 1;
    }
    let outgoing = matches!(work, Work::Write { .. } | Work::Send { .. });
    if outgoing && range.sges > 0 && work.total() <= limits.inline as usize {
        request.send_flags |= IBV_SEND_INLINE;
    }
    (request, range)
}

const _: () = assert!(
    IBV_WR_SEND_WITH_IMM == IBV_WR_SEND + 1 && IBV_WR_RDMA_WRITE_WITH_IMM == IBV_WR_RDMA_WRITE + 1
);

/// Sets the opcode and the remote address; returns the operation's immediate data, to be sent with the last work request.
#[inline]
fn set_target(request: &mut ibv_send_wr, work: &Work, offset: u64) -> Option<u32> {
    match work {
        Work::Write { to, imm, .. } => {
            request.opcode = IBV_WR_RDMA_WRITE;
            request.wr = rdma(to, offset);
            *imm
        }
        Work::Read { from, .. } => {
            request.opcode = IBV_WR_RDMA_READ;
            request.wr = rdma(from, offset);
            None
        }
        Work::Send { imm, .. } => {
            request.opcode = IBV_WR_SEND;
            *imm
        }
        Work::FetchAdd { at, add, .. } => {
            request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
            request.wr = atomic(at, *add, 0);
            None
        }
        Work::CompareSwap { at, expect, new, .. } => {
            request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
            request.wr = atomic(at, *expect, *new);
            None
        }
        Work::Receive { .. } => unreachable!("receives have a separate queue"),
    }
}

#[inline]
fn rdma(target: &Target, offset: u64) -> SendTarget {
    let (remote_addr, rkey) = remote(target);
    SendTarget { rdma: RdmaTarget { remote_addr: remote_addr.wrapping_add(offset), rkey } }
}

#[inline]
fn atomic(target: &Target, compare_add: u64, swap: u64) -> SendTarget {
    let (remote_addr, rkey) = remote(target);
    SendTarget { atomic: AtomicTarget { remote_addr, compare_add, swap, rkey } }
}

/// The peer's address and key. The peer refuses addresses beyond the window, also if the sum wraps.
#[inline]
fn remote(target: &Target) -> (u64, u32) {
    match target.window.access_method() {
        AccessMethod::Verbs { address, key } => (address.wrapping_add(target.offset), *key),
        _ => unreachable!("the lane accepts only windows that it imported"),
    }
}
