//! libfabric, loaded once for the whole process.

use std::path::Path;
use std::sync::OnceLock;

use rdma_sys::{LoadError, Ofi};

/// The library: the one that this process has already, else `explicit`, else the usual one.
pub(super) fn library(explicit: Option<&Path>) -> Result<&'static Ofi, LoadError> {
    static LIBRARY: OnceLock<Ofi> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let loaded = Ofi::load(explicit)?;
    // Another thread may have been first; both have the same copy then.
    Ok(LIBRARY.get_or_init(|| loaded))
}
