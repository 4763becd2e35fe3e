//! How C functions say that they failed: one converter per convention, and nowhere else.

use std::ffi::c_int;
use std::fmt;
use std::io;
use std::ptr::NonNull;

/// A reading of a C return value of type `C`.
pub trait Convention<C> {
    /// What the caller sees instead.
    type Out;

    /// Reads the value. Called directly after the C function, while `errno` is still its own.
    fn read(returned: C) -> Self::Out;
}

/// The value is the answer; the function cannot fail.
pub enum Plain {}

/// Null, and the reason is in `errno`: `ibv_reg_mr`, `ibv_create_qp`, `ibv_open_device`.
pub enum NullErrno {}

/// Null, and no reason: `ibv_qp_to_qp_ex` of a queue pair that was made the plain way.
pub enum NullUnsupported {}

/// 0, or the errno itself as the value: `ibv_modify_qp`, `ibv_post_send`, `ibv_query_port`.
pub enum ErrnoValue {}

/// -1, and the reason is in `errno`: `ibv_query_gid`, `ibv_get_cq_event`.
pub enum MinusOne {}

/// A count, or a negative number without a reason: `ibv_poll_cq`.
pub enum NegativeCount {}

/// A count, or a negated errno: `ibv_query_gid_table`.
pub enum NegativeErrno {}

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
            // Some providers answer -1 with errno set where the manual promises the errno.
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
        usize::try_from(returned)
            .map_err(|_| Errno(c_int::try_from(-returned).unwrap_or(libc::EIO)))
    }
}

/// An error number of the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub c_int);

impl Errno {
    /// What the calling thread's last failed C call left behind.
    pub fn last() -> Self {
        // A provider that fails without setting errno must not read as success.
        match io::Error::last_os_error().raw_os_error() {
            Some(n) if n != 0 => Errno(n),
            _ => Errno(libc::EIO),
        }
    }

    /// Whether the cause is a missing right rather than a missing thing.
    pub fn is_denied(self) -> bool {
        matches!(self.0, libc::EPERM | libc::EACCES)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // std appends " (os error N)"; the field says errno.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_as_value() {
        assert_eq!(ErrnoValue::read(0), Ok(()));
        assert_eq!(ErrnoValue::read(libc::ENOMEM), Err(Errno(libc::ENOMEM)));
    }

    #[test]
    fn negative_numbers() {
        assert_eq!(NegativeCount::read(3), Ok(3));
        assert!(NegativeCount::read(-1).is_err());
        assert_eq!(NegativeErrno::read(2), Ok(2));
        assert_eq!(NegativeErrno::read(-(libc::EOPNOTSUPP as isize)), Err(Errno(libc::EOPNOTSUPP)));
    }

    #[test]
    fn pointers() {
        let mut value = 7;
        assert_eq!(NullErrno::read(&raw mut value).map(NonNull::as_ptr), Ok(&raw mut value));
        assert!(NullErrno::read(std::ptr::null_mut::<u8>()).is_err());
    }

    #[test]
    fn an_errno_reads_as_words_and_number() {
        assert_eq!(Errno(libc::EPERM).to_string(), "operation not permitted (errno 1)");
    }
}
