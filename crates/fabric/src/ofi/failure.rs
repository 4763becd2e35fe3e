//! libfabric's errors in a lane's words, and in an error's.

use std::ffi::{c_int, c_uint};

use rdma_sys::Errno;
use rdma_sys::consts::{IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_RETRY_EXC_ERR};
use rdma_sys::ofi::consts::*;

use super::info::Facts;
use crate::error::{Error, Kind};
use crate::op::Failure;

/// Why a call that sets something up failed.
pub(super) fn error(facts: &Facts, call: &str, errno: Errno) -> Error {
    let call = format!("{call} by {} of libfabric", facts.provider);
    // ofi_rxm makes a queue for as many peers as it is told to expect, and some devices have none so long.
    let is_crowded = facts.provider.starts_with("verbs") && call.starts_with("make an endpoint");
    let (kind, fix) = match errno.0 {
        _ if is_crowded => (Kind::Full, "set FI_UNIVERSE_SIZE=16 in the environment"),
        libc::ENOMEM | libc::ENOSPC | libc::EMFILE => {
            (Kind::Full, "raise memlock and the number of open files, or ask for less")
        }
        libc::ENOSYS | libc::EOPNOTSUPP | libc::EINVAL | FI_EBADFLAGS => {
            (Kind::Unsupported, "take another provider; FI_LOG_LEVEL=warn lets libfabric say more")
        }
        libc::ENODEV | libc::ENODATA | libc::EADDRNOTAVAIL => {
            (Kind::Gone, "see what `fi_info -t FI_EP_RDM` lists")
        }
        _ if errno.is_denied() => (Kind::Denied, "run as a user who may use the device"),
        _ => (Kind::System, "FI_LOG_LEVEL=warn lets libfabric say more"),
    };
    Error::new(kind, call, errno, fix)
}

/// How an operation ended, by its entry. Those over verbs say no more than "input/output error" for whatever a device
/// reports; which it was is in the provider's own number, the status of the device's completion.
pub(super) fn errno_of(facts: &Facts, err: c_int, prov_errno: c_int) -> Errno {
    let is_verbs = facts.provider.starts_with("verbs");
    match c_uint::try_from(prov_errno) {
        Ok(IBV_WC_REM_ACCESS_ERR | IBV_WC_REM_INV_REQ_ERR) if is_verbs => Errno(libc::EACCES),
        Ok(IBV_WC_RETRY_EXC_ERR) if is_verbs => Errno(libc::ETIMEDOUT),
        _ => Errno::of_entry(err),
    }
}

/// What the end of a write or read says. A provider that refuses a key cuts the connection, so that
/// what is told here is often no more than that the operation was cancelled: then the peer is asked.
pub(super) fn of_transfer(errno: Errno) -> Option<Failure> {
    match errno.0 {
        libc::EACCES | libc::EPERM | libc::EFAULT | libc::EKEYREJECTED | FI_ENOKEY | FI_ENOMR => {
            Some(Failure::Access)
        }
        libc::ECANCELED | libc::EIO | libc::EINVAL | FI_EOTHER => None,
        _ => Some(of_frame(errno)),
    }
}

/// What the end of anything else says.
pub(super) fn of_frame(errno: Errno) -> Failure {
    match errno.0 {
        libc::ENOMEM | libc::EINVAL | libc::EFAULT | libc::EMSGSIZE | FI_EOVERRUN => Failure::Local,
        FI_ETRUNC | FI_ETOOSMALL => Failure::ProtocolError,
        // Cancelled, not connected, reset, timed out, unreachable, and what providers add to these.
        _ => Failure::PeerGone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_s_status_is_told_by_the_provider_s_own_number() {
        let errno_of = |provider: &str, err, prov_errno| {
            errno_of(&Facts { provider: provider.to_owned(), ..Facts::default() }, err, prov_errno)
                .0
        };
        assert_eq!(errno_of("verbs;ofi_rxm", libc::EIO, 10), libc::EACCES);
        assert_eq!(errno_of("verbs;ofi_rxm", libc::EIO, 12), libc::ETIMEDOUT);
        assert_eq!(errno_of("verbs;ofi_rxm", libc::ECANCELED, 5), libc::ECANCELED);
        assert_eq!(errno_of("tcp", libc::EIO, 10), libc::EIO, "its numbers are others");
        assert_eq!(errno_of("verbs;ofi_rxm", -libc::EIO, -1), libc::EIO);
    }

    #[test]
    fn errors_are_told_apart() {
        assert_eq!(of_transfer(Errno(libc::EACCES)), Some(Failure::Access));
        assert_eq!(of_transfer(Errno(libc::ECANCELED)), None, "the peer must be asked");
        assert_eq!(of_transfer(Errno(libc::ECONNRESET)), Some(Failure::PeerGone));
        assert_eq!(of_frame(Errno(libc::ECANCELED)), Failure::PeerGone);
        assert_eq!(of_frame(Errno(FI_ETRUNC)), Failure::ProtocolError);
        assert_eq!(of_frame(Errno(libc::ENOMEM)), Failure::Local);
        assert_eq!(of_frame(Errno(9999)), Failure::PeerGone, "an error of a later library");
    }
}
