//! The error number in a line: as text, as a name, or as a number next to a word that announces one.

use serde::Serialize;

use super::scan::has_word;

/// An error number of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Errno {
    /// The number, positive.
    pub number: u32,
    /// `ENOMEM`.
    pub name: &'static str,
    /// As `strerror` prints it, in lower case.
    pub text: &'static str,
}

impl Errno {
    /// ` ENOMEM (12, cannot allocate memory)`, for titles.
    pub(super) fn words(self) -> String {
        format!("{} ({}, {})", self.name, self.number, self.text)
    }
}

/// The error number that a line, in lower case, reports. Text counts more than a number: programs translate numbers of
/// their own, but `strerror` is the same everywhere.
pub(super) fn read(lower: &str) -> Option<Errno> {
    first_text(lower).or_else(|| named(lower)).or_else(|| numbered(lower))
}

/// The first text in the line: `returned 113(No route to host) errno 115(Operation now in progress)` is about the route.
fn first_text(lower: &str) -> Option<Errno> {
    let found = TABLE.iter().filter_map(|errno| Some((lower.find(errno.text)?, errno)));
    found
        .min_by_key(|(at, errno)| (*at, std::cmp::Reverse(errno.text.len())))
        .map(|(_, errno)| *errno)
}

fn named(lower: &str) -> Option<Errno> {
    let has = |errno: &&Errno| has_word(lower, &errno.name.to_lowercase());
    TABLE.iter().find(has).copied()
}

/// `errno 12`, `err -22`, `(err=-12)`, `failed: -61`, `(-110)`. A positive number counts only after `errno` or `rc`.
fn numbered(lower: &str) -> Option<Errno> {
    let starts = lower.char_indices().filter(|(_, letter)| letter.is_ascii_digit());
    let mut rest_of_number = false;
    let mut last = 0;
    for (at, _) in starts {
        rest_of_number = rest_of_number && at == last + 1;
        last = at;
        if rest_of_number {
            continue;
        }
        rest_of_number = true;
        if let Some(errno) = number_at(lower, at) {
            return Some(errno);
        }
    }
    None
}

fn number_at(lower: &str, at: usize) -> Option<Errno> {
    let (before, digits) = lower.split_at(at);
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    if digits[end..]
        .starts_with(|letter: char| letter.is_alphanumeric() || letter == '.' || letter == '_')
    {
        return None;
    }
    let number: u32 = digits[..end].parse().ok()?;
    let (before, negative) = match before.strip_suffix('-') {
        Some(before) => (before, true),
        None => (before, false),
    };
    let announced = |words: &[&str]| {
        let words_before = before.trim_end_matches([' ', ':', '=', '(', '[', '\t']);
        words.iter().any(|word| {
            words_before
                .strip_suffix(word)
                .is_some_and(|rest| !rest.ends_with(|letter: char| letter.is_alphanumeric()))
        })
    };
    let alone = before.ends_with(['(', '[']) && digits[end..].starts_with([')', ']']);
    // `fi_getinfo: -61`
    let of_call = before.trim_end().strip_suffix([':', '=']).is_some_and(|before| {
        let name = before.trim_end().trim_end_matches("()");
        let name = name.rsplit(char::is_whitespace).next().unwrap_or(name);
        let is_name = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        is_name && CALLS.iter().any(|start| name.starts_with(start))
    });
    // Calls of verbs return the error number itself.
    let is_result = negative || ["ibv_", "mlx5dv_"].iter().any(|call| lower.contains(call));
    // -1 is the result of any failed call, not EPERM.
    let counts = announced(ERRNO_WORDS)
        || (number > 1
            && ((negative && (alone || of_call)) || (is_result && announced(RESULT_WORDS))));
    if counts { of_number(number) } else { None }
}

pub(super) fn of_number(number: u32) -> Option<Errno> {
    TABLE.iter().find(|errno| errno.number == number).copied()
}

/// A number after these is an errno.
const ERRNO_WORDS: &[&str] = &[
    "errno",
    "rte_errno",
    "rc",
    "error number",
    "os error",
    "non-zero status",
    "bad status",
    "with error",
];
/// A negative number after the name of a call that starts with one of these is an errno.
const CALLS: &[&str] = &["fi_", "ibv_", "mlx5dv_", "rdma_", "ucp_", "uct_"];
/// A negative number after these is an errno.
const RESULT_WORDS: &[&str] = &[
    "code", "err", "error", "failed", "failure", "rc", "res", "result", "ret", "retval", "return",
    "returned", "returns", "status", "with", "ret val", "rv",
];

pub(super) const EPERM: u32 = 1;
pub(super) const ENOENT: u32 = 2;
pub(super) const EIO: u32 = 5;
pub(super) const ENXIO: u32 = 6;
pub(super) const EAGAIN: u32 = 11;
pub(super) const ENOMEM: u32 = 12;
pub(super) const EACCES: u32 = 13;
pub(super) const EFAULT: u32 = 14;
pub(super) const EBUSY: u32 = 16;
pub(super) const ENODEV: u32 = 19;
pub(super) const EINVAL: u32 = 22;
pub(super) const ENOTTY: u32 = 25;
pub(super) const ENOSPC: u32 = 28;
pub(super) const EPIPE: u32 = 32;
pub(super) const ENOSYS: u32 = 38;
pub(super) const ENODATA: u32 = 61;
pub(super) const EPROTO: u32 = 71;
pub(super) const EPROTONOSUPPORT: u32 = 93;
pub(super) const EOPNOTSUPP: u32 = 95;
pub(super) const EAFNOSUPPORT: u32 = 97;
pub(super) const EADDRINUSE: u32 = 98;
pub(super) const EADDRNOTAVAIL: u32 = 99;
pub(super) const ENETDOWN: u32 = 100;
pub(super) const ENETUNREACH: u32 = 101;
pub(super) const ECONNABORTED: u32 = 103;
pub(super) const ECONNRESET: u32 = 104;
pub(super) const ENOTCONN: u32 = 107;
pub(super) const ETIMEDOUT: u32 = 110;
pub(super) const ECONNREFUSED: u32 = 111;
pub(super) const EHOSTDOWN: u32 = 112;
pub(super) const EHOSTUNREACH: u32 = 113;
pub(super) const EREMOTEIO: u32 = 121;

const fn row(number: u32, name: &'static str, text: &'static str) -> Errno {
    Errno { number, name, text }
}

const TABLE: &[Errno] = &[
    row(EPERM, "EPERM", "operation not permitted"),
    row(ENOENT, "ENOENT", "no such file or directory"),
    row(4, "EINTR", "interrupted system call"),
    row(EIO, "EIO", "input/output error"),
    row(ENXIO, "ENXIO", "no such device or address"),
    row(8, "ENOEXEC", "exec format error"),
    row(9, "EBADF", "bad file descriptor"),
    row(EAGAIN, "EAGAIN", "resource temporarily unavailable"),
    row(ENOMEM, "ENOMEM", "cannot allocate memory"),
    row(EACCES, "EACCES", "permission denied"),
    row(EFAULT, "EFAULT", "bad address"),
    row(EBUSY, "EBUSY", "device or resource busy"),
    row(17, "EEXIST", "file exists"),
    row(ENODEV, "ENODEV", "no such device"),
    row(EINVAL, "EINVAL", "invalid argument"),
    row(24, "EMFILE", "too many open files"),
    row(ENOTTY, "ENOTTY", "inappropriate ioctl for device"),
    row(ENOSPC, "ENOSPC", "no space left on device"),
    row(30, "EROFS", "read-only file system"),
    row(EPIPE, "EPIPE", "broken pipe"),
    row(ENOSYS, "ENOSYS", "function not implemented"),
    row(ENODATA, "ENODATA", "no data available"),
    row(62, "ETIME", "timer expired"),
    row(EPROTO, "EPROTO", "protocol error"),
    row(75, "EOVERFLOW", "value too large for defined data type"),
    row(90, "EMSGSIZE", "message too long"),
    row(92, "ENOPROTOOPT", "protocol not available"),
    row(EPROTONOSUPPORT, "EPROTONOSUPPORT", "protocol not supported"),
    row(EOPNOTSUPP, "EOPNOTSUPP", "operation not supported"),
    row(EAFNOSUPPORT, "EAFNOSUPPORT", "address family not supported by protocol"),
    row(EADDRINUSE, "EADDRINUSE", "address already in use"),
    row(EADDRNOTAVAIL, "EADDRNOTAVAIL", "cannot assign requested address"),
    row(ENETDOWN, "ENETDOWN", "network is down"),
    row(ENETUNREACH, "ENETUNREACH", "network is unreachable"),
    row(ECONNABORTED, "ECONNABORTED", "software caused connection abort"),
    row(ECONNRESET, "ECONNRESET", "connection reset by peer"),
    row(105, "ENOBUFS", "no buffer space available"),
    row(ENOTCONN, "ENOTCONN", "transport endpoint is not connected"),
    row(ETIMEDOUT, "ETIMEDOUT", "connection timed out"),
    row(ECONNREFUSED, "ECONNREFUSED", "connection refused"),
    row(EHOSTDOWN, "EHOSTDOWN", "host is down"),
    row(EHOSTUNREACH, "EHOSTUNREACH", "no route to host"),
    row(114, "EALREADY", "operation already in progress"),
    row(EREMOTEIO, "EREMOTEIO", "remote i/o error"),
    row(125, "ECANCELED", "operation canceled"),
    row(115, "EINPROGRESS", "operation now in progress"),
    row(126, "ENOKEY", "required key not available"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_as_programs_write_them() {
        let cases = [
            ("register: cannot allocate memory", Some(ENOMEM)),
            ("status -12", Some(ENOMEM)),
            ("failed with error code -22", Some(EINVAL)),
            ("unknown symbol (err -22)", Some(EINVAL)),
            ("syndrome (0x9a6171), err(-22)", Some(EINVAL)),
            ("rdma connection establishment failed (-110)", Some(ETIMEDOUT)),
            ("fi_getinfo failed: -61", Some(ENODATA)),
            ("fi_getinfo: -61", Some(ENODATA)),
            ("ibv_reg_dmabuf_mr(fd=-5) was called", None),
            ("with errno 14", Some(EFAULT)),
            ("rc: 12, error: cannot allocate memory", Some(ENOMEM)),
            (
                "returned 113(no route to host) errno 115(operation now in progress)",
                Some(EHOSTUNREACH),
            ),
            ("open: enodev", Some(ENODEV)),
            ("call to ibv_modify_qp failed with 110", Some(ETIMEDOUT)),
            ("ibv_create_qp returned 22", Some(EINVAL)),
            ("no such device or address", Some(ENXIO)),
            // A failed call's -1, ports, sizes and codes of other programs are not error numbers.
            ("ibv_query_gid returned -1", None),
            ("retcode 2, 4096-12 bytes, port 22, status 12", None),
            ("0000:3b:00.0", None),
        ];
        for (line, number) in cases {
            assert_eq!(read(line).map(|errno| errno.number), number, "{line}");
        }
    }
}
