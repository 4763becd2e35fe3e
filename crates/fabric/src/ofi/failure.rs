//! Converts libfabric's errors to failures of operations and to errors.

use std::ffi::{c_int, c_uint};

use rdma_sys::Errno;
use rdma_sys::consts::{IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_RETRY_EXC_ERR};
use rdma_sys::ofi::consts::*;

use super::info::Facts;
use crate::error::{Error, ErrorKind};
use crate::op::Failure;

/// The error of a set-up call.
pub(super) fn error(facts: &Facts, call: &str, errno: Errno) -> Error {
    let call = format!("{call} with libfabric provider {}", facts.provider);
    // ofi_rxm sizes its queues for FI_UNIVERSE_SIZE peers, which exceeds the limits of some devices.
    let exceeds_queue_limit =
        facts.provider.starts_with("verbs") && call.starts_with("create an endpoint");
    let (kind, fix) = match errno.0 {
        _ if exceeds_queue_limit => (ErrorKind::Full, "set FI_UNIVERSE_SIZE=16 in the environment"),
        libc::ENOMEM | libc::ENOSPC | libc::EMFILE => {
            (ErrorKind::Full, "raise memlock and the limit of open files, or use less memory")
        }
        libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL | FI_EBADFLAGS => {
            (ErrorKind::Unsupported, "use another provider; set FI_LOG_LEVEL=warn for details")
        }
        libc::ENODEV | libc::ENODATA | libc::EADDRNOTAVAIL => {
            (ErrorKind::Gone, "check the output of `fi_info -t FI_EP_RDM`")
        }
        _ if errno.is_denied() => (ErrorKind::Denied, "run as a user who may use the device"),
        _ => (ErrorKind::System, "set FI_LOG_LEVEL=warn for details"),
    };
    Error::new(kind, call, errno, fix)
}

/// The errno of a failed operation. The verbs providers return EIO for all device errors;
/// their `prov_errno` is the status of the device's completion.
pub(super) fn errno_of(facts: &Facts, err: c_int, prov_errno: c_int) -> Errno {
    let is_verbs = facts.provider.starts_with("verbs");
    match c_uint::try_from(prov_errno) {
        Ok(IBV_WC_REM_ACCESS_ERR | IBV_WC_REM_INV_REQ_ERR) if is_verbs => Errno(libc::EACCES),
        Ok(IBV_WC_RETRY_EXC_ERR) if is_verbs => Errno(libc::ETIMEDOUT),
        _ => Errno::of_entry(err),
    }
}

/// The failure of a write or read. A provider that refuses a key closes the connection, so
/// that the operation is often only reported as cancelled. Then the result is `None`, and the peer must be queried.
pub(super) fn transfer_failure(errno: Errno) -> Option<Failure> {
    match errno.0 {
        libc::EACCES | libc::EPERM | libc::EFAULT | libc::EKEYREJECTED | FI_ENOKEY | FI_ENOMR => {
            Some(Failure::Access)
        }
        libc::ECANCELED | libc::EIO | libc::EINVAL | FI_EOTHER => None,
        _ => Some(frame_failure(errno)),
    }
}

/// The failure of any other operation.
pub(super) fn frame_failure(errno: Errno) -> Failure {
    match errno.0 {
        libc::ENOMEM | libc::EINVAL | libc::EFAULT | libc::EMSGSIZE | FI_EOVERRUN => Failure::Local,
        FI_ETRUNC | FI_ETOOSMALL => Failure::ProtocolError,
        // Cancelled, not connected, reset, timed out, unreachable, and provider-specific errors.
        _ => Failure::PeerGone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prov_errno_has_the_device_status() {
        let errno_of = |provider: &str, err, prov_errno| {
            errno_of(&Facts { provider: provider.to_owned(), ..Facts::default() }, err, prov_errno)
                .0
        };
        assert_eq!(errno_of("verbs;ofi_rxm", libc::EIO, 10), libc::EACCES);
        assert_eq!(errno_of("verbs;ofi_rxm", libc::EIO, 12), libc::ETIMEDOUT);
        assert_eq!(errno_of("verbs;ofi_rxm", libc::ECANCELED, 5), libc::ECANCELED);
        assert_eq!(errno_of("tcp", libc::EIO, 10), libc::EIO, "not a verbs status");
        assert_eq!(errno_of("verbs;ofi_rxm", -libc::EIO, -1), libc::EIO);
    }

    #[test]
    fn errors_are_converted_to_failures() {
        assert_eq!(transfer_failure(Errno(libc::EACCES)), Some(Failure::Access));
        assert_eq!(transfer_failure(Errno(libc::ECANCELED)), None, "the peer must be queried");
        assert_eq!(transfer_failure(Errno(libc::ECONNRESET)), Some(Failure::PeerGone));
        assert_eq!(frame_failure(Errno(libc::ECANCELED)), Failure::PeerGone);
        assert_eq!(frame_failure(Errno(FI_ETRUNC)), Failure::ProtocolError);
        assert_eq!(frame_failure(Errno(libc::ENOMEM)), Failure::Local);
        assert_eq!(frame_failure(Errno(9999)), Failure::PeerGone, "an error of a later library");
    }
}
