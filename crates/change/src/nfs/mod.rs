//! NFS over RDMA: what a server and a client need, as plans, and whether a mount really uses RDMA.
//!
//! Pure: [`server::plan`] and [`client::plan`] look at facts and either give a [`Plan`](crate::Plan) or
//! say in a line why not ([`Refusal`]); [`proof`] checks what is mounted. Changes are made by
//! [`apply()`](crate::apply()) and reverted by [`revert()`](crate::revert()).

pub mod client;
mod clients;
pub mod proof;
mod requirements;
pub mod server;
mod source;

use std::fmt;

pub use client::Mounting;
pub use clients::Clients;
pub use proof::Proof;
pub use server::Serving;
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

/// What was typed and cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidArgument(String);

impl fmt::Display for InvalidArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidArgument {}

/// Where NFS over RDMA listens (RFC 5667, 7; IANA `nfsrdma`).
pub const PORT: u16 = 20049;

/// A path that stands in exports, fstab and mountinfo as it is: absolute, plain, no end but its name.
pub fn folder(text: &str) -> Result<String, InvalidArgument> {
    let unfit = |why: &str| Err(InvalidArgument(format!("{text:?} {why}")));
    if !text.starts_with('/') {
        return unfit("is no path from the root: begin it with /");
    }
    if text.len() > LONGEST_PATH {
        return unfit("is longer than any path");
    }
    if text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return unfit(
            "has a blank in it, which /etc/exports and /etc/fstab cannot tell from its end",
        );
    }
    if text.contains(['"', '\'', '\\', '#', '(', ')', ',', '*', '?', '[', '%']) {
        return unfit("has a letter in it that means something else in /etc/exports");
    }
    if text.split('/').any(|name| matches!(name, "." | "..")) {
        return unfit("contains . or ..: name the folder itself");
    }
    let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
    Ok(format!("/{}", names.join("/")))
}

/// A file that loads the module with the machine.
fn module_file(whose: &str) -> Change {
    let text = format!("{HEAD}{MODULE}\n");
    Change::file(format!("/etc/modules-load.d/wirelane-nfs-{whose}.conf"), text)
}

/// The transport of both ends; `svcrdma` and `xprtrdma` are other names of it.
const MODULE: &str = "rpcrdma";
const WHY_MODULE: &str = "the kernel's RPC over RDMA, of both ends";
const HEAD: &str = "# Written by `wirelane nfs`; `wirelane nfs remove` reverts it.\n";
const LONGEST_PATH: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_other_files_would_misread_are_refused() {
        assert_eq!(folder("/srv//data/"), Ok("/srv/data".to_owned()));
        assert_eq!(folder("/"), Ok("/".to_owned()));
        for path in ["srv", "", "/a b", "/a\n*(rw)", "/a\"", "/a/../b", "/a(rw)", "/a#", "/a\\040b"]
        {
            assert!(folder(path).is_err(), "{path:?}");
        }
    }
}
