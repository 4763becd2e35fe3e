//! Whether libfabric can be used here, by which providers, and if not, why.

use std::fmt;
use std::path::{Path, PathBuf};

use rdma_sys::{Errno, LoadError};

use super::info::{Info, Query};
use super::library::library;

/// What libfabric offers for lanes on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The library's version.
    pub version: (u32, u32),
    /// The version of its structs that is spoken, such as `FABRIC_1.3`.
    pub abi: &'static str,
    /// The file it came from.
    pub file: PathBuf,
    /// In the order libfabric lists them.
    pub providers: Vec<Provider>,
}

/// One path to communicate by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its name, such as `efa` or `tcp;ofi_rxm`.
    pub name: String,
    /// Its version.
    pub version: (u32, u32),
    /// The network, in its words.
    pub fabric: String,
    /// The device or interface, in its words.
    pub domain: String,
}

/// Loads the library, unless the process has it already, and asks it.
pub fn survey(explicit: Option<&Path>) -> Result<Survey, Unavailable> {
    let ofi = library(explicit).map_err(Unavailable::Library)?;
    let found = Query::default().find(ofi).map_err(|errno| match errno {
        Errno(libc::ENODATA) => Unavailable::NoProvider,
        errno => Unavailable::List(errno),
    })?;
    let providers = found.iter().map(Provider::of).collect();
    Ok(Survey { version: ofi.version(), abi: ofi.abi(), file: ofi.file().to_owned(), providers })
}

impl Provider {
    fn of(info: &Info) -> Self {
        let facts = info.facts();
        Provider {
            name: facts.provider,
            version: facts.version,
            fabric: facts.fabric,
            domain: facts.domain,
        }
    }
}

/// Why libfabric is off. An ordinary answer with a fix, not a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unavailable {
    /// It is not installed, cannot be loaded, or is too old.
    Library(LoadError),
    /// It could not list providers.
    List(Errno),
    /// No provider has reliable datagrams with writes and reads of remote memory.
    NoProvider,
}

impl Unavailable {
    /// One word for scripts and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Unavailable::Library(LoadError::Absent { .. }) => "no_library",
            Unavailable::Library(LoadError::Symbol { .. }) => "no_symbol",
            Unavailable::List(_) => "list_failed",
            Unavailable::NoProvider => "no_provider",
        }
    }

    /// What the reader can do about it.
    pub fn fix(&self) -> &'static str {
        match self {
            Unavailable::Library(LoadError::Absent { .. }) => {
                "install it (Debian: `apt install libfabric1`, AWS: the EFA installer), or name its file"
            }
            Unavailable::Library(LoadError::Symbol { .. }) => {
                "install libfabric 1.9 or newer, or name another file"
            }
            Unavailable::List(_) | Unavailable::NoProvider => {
                "see what `fi_info -t FI_EP_RDM` lists; FI_PROVIDER in the environment may hide providers"
            }
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Library(error) => error.fmt(f),
            Unavailable::List(errno) => write!(f, "libfabric cannot list providers: {errno}"),
            Unavailable::NoProvider => {
                f.write_str("libfabric has no provider of reliable datagrams here")
            }
        }
    }
}

impl std::error::Error for Unavailable {}
