//! How work requests end, in a lane's words.

use rdma_sys::consts::*;

use crate::op::{Failure, Work};

/// What a completion's status says.
#[inline]
pub(super) fn verdict(status: u32) -> Result<(), Failure> {
    Err(match status {
        IBV_WC_SUCCESS => return Ok(()),
        IBV_WC_WR_FLUSH_ERR => Failure::Flushed,
        IBV_WC_LOC_LEN_ERR | IBV_WC_REM_INV_REQ_ERR => Failure::TooLong,
        IBV_WC_REM_ACCESS_ERR | IBV_WC_REM_OP_ERR => Failure::Access,
        IBV_WC_RETRY_EXC_ERR | IBV_WC_RESP_TIMEOUT_ERR | IBV_WC_REM_ABORT_ERR => Failure::PeerGone,
        IBV_WC_RNR_RETRY_EXC_ERR => Failure::NotReady,
        IBV_WC_BAD_RESP_ERR => Failure::ProtocolError,
        // Our memory, our queue pair, our device.
        _ => Failure::Local,
    })
}

/// What a failure means for this work. A send needs no key: if the peer's device could not place it, the
/// receive was too short. Soft-RoCE says so (kernel 6.12), where others call it an invalid request.
#[cold]
pub(super) fn of_send(work: &Work, failure: Failure) -> Failure {
    match (work, failure) {
        (Work::Send { .. }, Failure::Access) => Failure::TooLong,
        // What needs no receive can be invalid only by its key, bounds or right.
        (_, Failure::TooLong) if !work.takes_a_receive() => Failure::Access,
        _ => failure,
    }
}

/// What a receive's status says. Soft-RoCE calls a message that is too long a fault of the queue pair.
#[inline]
pub(super) fn received(status: u32) -> Result<(), Failure> {
    verdict(if status == IBV_WC_LOC_QP_OP_ERR { IBV_WC_LOC_LEN_ERR } else { status })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_told_apart() {
        let failure = |status| verdict(status).unwrap_err();
        assert_eq!(verdict(IBV_WC_SUCCESS), Ok(()));
        assert_eq!(failure(IBV_WC_RETRY_EXC_ERR), Failure::PeerGone);
        assert_eq!(failure(IBV_WC_RNR_RETRY_EXC_ERR), Failure::NotReady);
        assert_eq!(failure(IBV_WC_REM_ACCESS_ERR), Failure::Access);
        assert_eq!(failure(IBV_WC_REM_INV_REQ_ERR), Failure::TooLong);
        assert_eq!(failure(IBV_WC_LOC_PROT_ERR), Failure::Local);
        assert_eq!(failure(IBV_WC_GENERAL_ERR), Failure::Local);
        assert_eq!(received(IBV_WC_LOC_QP_OP_ERR), Err(Failure::TooLong));
        assert_eq!(received(IBV_WC_LOC_PROT_ERR), Err(Failure::Local));
        assert_eq!(failure(999), Failure::Local, "a status of a later library");
    }
}
