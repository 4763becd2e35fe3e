//! Work completion statuses as failures of operations.

use rdma_sys::consts::*;

use crate::op::{Failure, Work};

/// The result of a send-queue completion.
#[inline]
pub(super) fn send_result(status: u32) -> Result<(), Failure> {
    Err(match status {
        IBV_WC_SUCCESS => return Ok(()),
        IBV_WC_WR_FLUSH_ERR => Failure::Flushed,
        IBV_WC_LOC_LEN_ERR | IBV_WC_REM_INV_REQ_ERR => Failure::TooLong,
        IBV_WC_REM_ACCESS_ERR | IBV_WC_REM_OP_ERR => Failure::Access,
        IBV_WC_RETRY_EXC_ERR | IBV_WC_RESP_TIMEOUT_ERR | IBV_WC_REM_ABORT_ERR => Failure::PeerGone,
        IBV_WC_RNR_RETRY_EXC_ERR => Failure::NotReady,
        IBV_WC_BAD_RESP_ERR => Failure::ProtocolError,
        // Errors of local memory, queue pair or device.
        _ => Failure::Local,
    })
}

/// Refines a failure by the kind of operation. A send uses no key: if the peer's device could not place it, the
/// receive was too short. Soft-RoCE reports an access error (kernel 6.12), other devices an invalid request.
#[cold]
pub(super) fn send_failure(work: &Work, failure: Failure) -> Failure {
    match (work, failure) {
        (Work::Send { .. }, Failure::Access) => Failure::TooLong,
        // An operation that needs no receive can be invalid only by its key, bounds or rights.
        (_, Failure::TooLong) if !work.consumes_receive() => Failure::Access,
        _ => failure,
    }
}

/// The result of a receive completion. For a message that is too long, soft-RoCE reports a queue pair error.
#[inline]
pub(super) fn receive_result(status: u32) -> Result<(), Failure> {
    send_result(if status == IBV_WC_LOC_QP_OP_ERR { IBV_WC_LOC_LEN_ERR } else { status })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_converted_to_failures() {
        let failure = |status| send_result(status).unwrap_err();
        assert_eq!(send_result(IBV_WC_SUCCESS), Ok(()));
        assert_eq!(failure(IBV_WC_RETRY_EXC_ERR), Failure::PeerGone);
        assert_eq!(failure(IBV_WC_RNR_RETRY_EXC_ERR), Failure::NotReady);
        assert_eq!(failure(IBV_WC_REM_ACCESS_ERR), Failure::Access);
        assert_eq!(failure(IBV_WC_REM_INV_REQ_ERR), Failure::TooLong);
        assert_eq!(failure(IBV_WC_LOC_PROT_ERR), Failure::Local);
        assert_eq!(failure(IBV_WC_GENERAL_ERR), Failure::Local);
        assert_eq!(receive_result(IBV_WC_LOC_QP_OP_ERR), Err(Failure::TooLong));
        assert_eq!(receive_result(IBV_WC_LOC_PROT_ERR), Err(Failure::Local));
        assert_eq!(failure(999), Failure::Local, "a status of a later library");
    }
}
