//! Lists the providers of libfabric, or the reason why libfabric is unavailable.

use std::fmt;
use std::path::{Path, PathBuf};

use rdma_sys::{Errno, LoadError};

use super::info::{Info, Query};
use super::library::library;

/// The installed libfabric and its providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderList {
    /// The library's version.
    pub version: (u32, u32),
    /// The ABI version in use, such as `FABRIC_1.3`.
    pub abi: &'static str,
    /// The file it was loaded from.
    pub file: PathBuf,
    /// In the order libfabric lists them.
    pub providers: Vec<Provider>,
}

/// A provider on one device or interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its name, such as `efa` or `tcp;ofi_rxm`.
    pub name: String,
    /// Its version.
    pub version: (u32, u32),
    /// The network, as the provider names it.
    pub fabric: String,
    /// The device or interface, as the provider names it.
    pub domain: String,
}

/// Loads the library, unless the process has already loaded it, and lists the providers.
pub fn list_providers(explicit: Option<&Path>) -> Result<ProviderList, Unavailable> {
    let ofi = library(explicit).map_err(Unavailable::Library)?;
    let found = Query::default().find(ofi).map_err(|errno| match errno {
        Errno(libc::ENODATA) => Unavailable::NoProvider,
        errno => Unavailable::List(errno),
    })?;
    let providers = found.iter().map(Provider::of).collect();
    Ok(ProviderList {
        version: ofi.version(),
        abi: ofi.abi(),
        file: ofi.file().to_owned(),
        providers,
    })
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

/// Why libfabric is unavailable, with a fix. An expected state, not a failure.
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

    /// What the user can do about it.
    pub fn fix(&self) -> &'static str {
        match self {
            Unavailable::Library(LoadError::Absent { .. }) => {
                "install it (Debian: `apt install libfabric1`, AWS: the EFA installer), or pass --libfabric FILE"
            }
            Unavailable::Library(LoadError::Symbol { .. }) => {
                "install libfabric 1.9 or newer, or pass --libfabric FILE"
            }
            Unavailable::List(_) | Unavailable::NoProvider => {
                "check the output of `fi_info -t FI_EP_RDM`; FI_PROVIDER in the environment may hide providers"
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
                f.write_str("libfabric has no provider of reliable datagrams (FI_EP_RDM)")
            }
        }
    }
}

impl std::error::Error for Unavailable {}
