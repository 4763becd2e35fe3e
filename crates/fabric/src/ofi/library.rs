//! libfabric, loaded once per process.

use std::path::Path;
use std::sync::OnceLock;

use rdma_sys::{LoadError, Ofi};

/// The library: the one already loaded, else `explicit`, else the default.
pub(super) fn library(explicit: Option<&Path>) -> Result<&'static Ofi, LoadError> {
    static LIBRARY: OnceLock<Ofi> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let loaded = Ofi::load(explicit)?;
    // If another thread was first, both have loaded the same copy.
    Ok(LIBRARY.get_or_init(|| loaded))
}
