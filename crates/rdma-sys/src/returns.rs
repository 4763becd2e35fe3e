//! The error conventions of C functions: one converter each.

use std::ffi::c_int;
use std::fmt;
use std::io;
use std::ptr::NonNull;

/// Converts a C return value of type `C`.
pub trait Convention<C> {
    /// The result for the caller.
    type Out;

    /// Converts the value. Must be called directly after the C function, before `errno` changes.
    fn read(returned: C) -> Self::Out;
}

/// The value itself; the function cannot fail.
pub enum Plain {}

/// Null, and the reason is in `errno`: `ibv_reg_mr`, `ibv_create_qp`, `ibv_open_device`.
pub enum NullErrno {}

/// Null, without a reason: `ibv_qp_to_qp_ex` of a queue pair that was not created by `ibv_create_qp_ex`.
pub enum NullUnsupported {}

/// 0, or the errno itself as the value: `ibv_modify_qp`, `ibv_post_send`, `ibv_query_port`.
pub enum ErrnoValue {}

/// -1, and the reason is in `errno`: `ibv_query_gid`, `ibv_get_cq_event`.
pub enum MinusOne {}

/// A count, or a negative number without a reason: `ibv_poll_cq`.
pub enum NegativeCount {}

/// A count, or a negated errno: `ibv_query_gid_table`, `fi_av_insert`.
pub enum NegativeErrno {}

/// 0, or a negated errno of the system or of libfabric: `fi_getinfo`, `fi_enable`, `fi_sendmsg`.
pub enum FabricStatus {}

/// A count, or a negated errno, where `EAGAIN` means 0: `fi_cq_read`.
pub enum FabricCount {}

impl<C> Convention<C> for Plain {
    type Out = C;

    fn read(returned: C) -> C {
        returned
    }
}

impl<T> Convention<*mut T> for NullErrno {
    type Out = Result<NonNull<T>, Errno>;

    fn read(returned: *mut T) -> Self::Out {
        NonNull::new(returned).ok_or_else(Errno::last)
    }
}

impl<T> Convention<*mut T> for NullUnsupported {
    type Out = Result<NonNull<T>, Errno>;

    fn read(returned: *mut T) -> Self::Out {
        NonNull::new(returned).ok_or(Errno(libc::EOPNOTSUPP))
    }
}

impl Convention<c_int> for ErrnoValue {
    type Out = Result<(), Errno>;

    #[inline]
    fn read(returned: c_int) -> Self::Out {
        match returned {
            0 => Ok(()),
            // Some providers return -1 and set errno, against the manual.
            n if n < 0 => Err(Errno::last()),
            n => Err(Errno(n)),
        }
    }
}

impl Convention<c_int> for MinusOne {
    type Out = Result<c_int, Errno>;

    fn read(returned: c_int) -> Self::Out {
        if returned < 0 { Err(Errno::last()) } else { Ok(returned) }
    }
}

impl Convention<c_int> for NegativeCount {
    type Out = Result<usize, Errno>;

    #[inline]
    fn read(returned: c_int) -> Self::Out {
        usize::try_from(returned).map_err(|_| Errno(libc::EIO))
    }
}

impl Convention<isize> for NegativeErrno {
    type Out = Result<usize, Errno>;

    fn read(returned: isize) -> Self::Out {
        usize::try_from(returned).map_err(|_| Errno::negated(returned))
    }
}

impl Convention<c_int> for NegativeErrno {
    type Out = Result<usize, Errno>;

    fn read(returned: c_int) -> Self::Out {
        <Self as Convention<isize>>::read(returned as isize)
    }
}

impl Convention<isize> for FabricStatus {
    type Out = Result<(), Errno>;

    #[inline]
    fn read(returned: isize) -> Self::Out {
        if returned >= 0 { Ok(()) } else { Err(Errno::negated(returned)) }
    }
}

impl Convention<c_int> for FabricStatus {
    type Out = Result<(), Errno>;

    #[inline]
    fn read(returned: c_int) -> Self::Out {
        <Self as Convention<isize>>::read(returned as isize)
    }
}

impl Convention<isize> for FabricCount {
    type Out = Result<usize, Errno>;

    #[inline]
    fn read(returned: isize) -> Self::Out {
        match usize::try_from(returned) {
            Ok(count) => Ok(count),
            Err(_) if returned == EMPTY_QUEUE => Ok(0),
            Err(_) => Err(Errno::negated(returned)),
        }
    }
}

/// The return value of libfabric for an empty queue.
const EMPTY_QUEUE: isize = -(libc::EAGAIN as isize);

/// An error number of the operating system or, from 256, of libfabric.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub c_int);

impl Errno {
    /// The `errno` of the calling thread.
    pub fn last() -> Self {
        // A provider may fail without setting errno.
        match io::Error::last_os_error().raw_os_error() {
            Some(n) if n != 0 => Errno(n),
            _ => Errno(libc::EIO),
        }
    }

    /// The errno of a negated return value.
    fn negated(returned: isize) -> Self {
        Errno(c_int::try_from(-returned).unwrap_or(libc::EIO))
    }

    /// The error of a failed operation, from the `err` of its `fi_cq_err_entry`: positive according to the
    /// manual, but negated by the shm provider of libfabric 1.17.
    pub fn of_entry(err: c_int) -> Self {
        Errno(err.saturating_abs())
    }

    /// Whether access was denied.
    pub fn is_denied(self) -> bool {
        matches!(self.0, libc::EPERM | libc::EACCES)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_fabric = usize::try_from(self.0 - FIRST_FABRIC_ERROR).ok();
        if let Some(text) = of_fabric.and_then(|at| FABRIC_ERRORS.get(at)) {
            return write!(f, "{text} (errno {})", self.0);
        }
        // std appends " (os error N)"; replaced by " (errno N)".
        let text = io::Error::from_raw_os_error(self.0).to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        write!(f, "{} (errno {})", text.to_lowercase(), self.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Errno {}

/// The texts of libfabric's errors, from `FI_EOTHER` on.
const FABRIC_ERRORS: [&str; 16] = [
    "unspecified provider error",
    "the buffer is too small",
    "not permitted in this state",
    "an error entry is in the queue",
    "flags not supported",
    "no event queue is bound",
    "objects of different domains",
    "no completion queue is bound",
    "the checksum does not match",
    "message truncated: longer than the buffer",
    "no such key",
    "no address vector is bound",
    "the queue overflowed",
    "the peer has no receive posted",
    "no memory registrations available",
    "the peer is behind a firewall",
];

/// `FI_EOTHER`.
const FIRST_FABRIC_ERROR: c_int = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ofi::consts;

    #[test]
    fn errno_as_value() {
        assert_eq!(ErrnoValue::read(0), Ok(()));
        assert_eq!(ErrnoValue::read(libc::ENOMEM), Err(Errno(libc::ENOMEM)));
    }

    #[test]
    fn negative_numbers() {
        assert_eq!(NegativeCount::read(3), Ok(3));
        assert!(NegativeCount::read(-1).is_err());
        assert_eq!(NegativeErrno::read(2_isize), Ok(2));
        assert_eq!(NegativeErrno::read(-libc::ENOMEM), Err(Errno(libc::ENOMEM)));
        assert_eq!(NegativeErrno::read(-(libc::EOPNOTSUPP as isize)), Err(Errno(libc::EOPNOTSUPP)));
    }

    #[test]
    fn libfabric_negates_errors_and_an_empty_queue_is_no_error() {
        assert_eq!(FabricStatus::read(0_isize), Ok(()));
        assert_eq!(FabricStatus::read(-libc::ENODATA), Err(Errno(libc::ENODATA)));
        assert_eq!(FabricCount::read(2), Ok(2));
        assert_eq!(FabricCount::read(-(libc::EAGAIN as isize)), Ok(0));
        assert_eq!(FabricCount::read(-259), Err(Errno(consts::FI_EAVAIL)));
        assert_eq!(Errno::of_entry(-libc::EIO), Errno::of_entry(libc::EIO));
    }

    #[test]
    fn pointers() {
        let mut value = 7;
        assert_eq!(NullErrno::read(&raw mut value).map(NonNull::as_ptr), Ok(&raw mut value));
        assert!(NullErrno::read(std::ptr::null_mut::<u8>()).is_err());
    }

    #[test]
    fn an_errno_is_displayed_as_text_and_number() {
        assert_eq!(Errno(libc::EPERM).to_string(), "operation not permitted (errno 1)");
        assert_eq!(Errno(consts::FI_ENOKEY).to_string(), "no such key (errno 266)");
        assert_eq!(FIRST_FABRIC_ERROR, consts::FI_EOTHER);
        let last = Errno(consts::FI_EFIREWALLADDR).to_string();
        assert_eq!(last, "the peer is behind a firewall (errno 271)");
    }
}
