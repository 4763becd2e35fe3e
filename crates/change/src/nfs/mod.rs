//! NFS over RDMA: what a server and a client need, as plans, and whether a mount really uses RDMA.
//!
//! Pure: [`server::plan`] and [`client::plan`] read facts and return a [`Plan`](crate::Plan) or
//! a [`Refusal`] with the reason; [`mount_check`] checks a mount. Changes are applied by
//! [`apply()`](crate::apply()) and reverted by [`revert()`](crate::revert()).

pub mod client;
mod clients;
pub mod mount_check;
mod requirements;
pub mod server;
mod source;

use std::fmt;

pub use client::MountRequest;
pub use clients::Clients;
pub use mount_check::MountCheck;
pub use server::ExportRequest;
pub use source::Source;

use crate::Change;

/// Why nothing is planned: the thing, the cause, the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub(crate) String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// An invalid argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidArgument(String);

impl fmt::Display for InvalidArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidArgument {}

/// The port of NFS over RDMA (RFC 5667, 7; IANA `nfsrdma`).
pub const PORT: u16 = 20049;

/// A path that needs no quoting in exports, fstab and mountinfo: absolute, without special characters or a trailing slash.
pub fn folder(text: &str) -> Result<String, InvalidArgument> {
    let invalid = |why: &str| Err(InvalidArgument(format!("{text:?} {why}")));
    if !text.starts_with('/') {
        return invalid("is not an absolute path");
    }
    if text.len() > MAX_PATH_BYTES {
        return invalid("is too long for a path");
    }
    if text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return invalid(
            "contains white space, which separates fields in /etc/exports and /etc/fstab",
        );
    }
    if text.contains(['"', '\'', '\\', '#', '(', ')', ',', '*', '?', '[', '%']) {
        return invalid("contains a character with a special meaning in /etc/exports");
    }
    if text.split('/').any(|name| matches!(name, "." | "..")) {
        return invalid("contains . or ..: name the folder itself");
    }
    let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
    Ok(format!("/{}", names.join("/")))
}

/// A file that loads the module at boot.
fn module_file(role: &str) -> Change {
    let text = format!("{HEAD}{MODULE}\n");
    Change::file(format!("/etc/modules-load.d/wirelane-nfs-{role}.conf"), text)
}

/// The transport of client and server; `svcrdma` and `xprtrdma` are aliases.
const MODULE: &str = "rpcrdma";
const WHY_MODULE: &str = "the kernel's RPC over RDMA, for client and server";
const HEAD: &str = "# Written by `wirelane nfs`; `wirelane nfs remove` reverts it.\n";
const MAX_PATH_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_would_need_quoting_are_refused() {
        assert_eq!(folder("/srv//data/"), Ok("/srv/data".to_owned()));
        assert_eq!(folder("/"), Ok("/".to_owned()));
        for path in ["srv", "", "/a b", "/a\n*(rw)", "/a\"", "/a/../b", "/a(rw)", "/a#", "/a\\040b"]
        {
            assert!(folder(path).is_err(), "{path:?}");
        }
    }
}
