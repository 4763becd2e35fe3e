//! A libfabric provider, as the ends of a link describe it to each other.

use super::list_providers::Provider;

/// A provider on one device or interface; the names are the provider's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsableProvider {
    /// Such as `efa` or `tcp;ofi_rxm`.
    pub(crate) provider: String,
    /// The `fabric` of libfabric, such as `efa` or `192.0.2.0/24`.
    pub(crate) network: String,
    /// The `domain` of libfabric: the device or interface.
    pub(crate) interface: String,
}

impl UsableProvider {
    pub(crate) fn of(provider: &Provider) -> Self {
        UsableProvider {
            provider: provider.name.clone(),
            network: provider.fabric.clone(),
            interface: provider.domain.clone(),
        }
    }

    /// Its name, unique among the paths of a host.
    pub(crate) fn name(&self) -> String {
        format!("{} {} {}", self.provider, self.interface, self.network)
    }

    /// Whether it uses an RDMA device.
    pub(crate) fn is_rdma(&self) -> bool {
        is_rdma(&self.provider)
    }

    /// Whether it reaches only the local host.
    pub(crate) fn is_loopback(&self) -> bool {
        self.network.starts_with("127.") || self.network.starts_with("::1")
    }

    /// Whether its addresses are link-local, and so unusable by another host.
    pub(super) fn is_link_local(&self) -> bool {
        !self.is_rdma() && self.network.starts_with("fe80:")
    }
}

/// Whether a provider of this name uses RDMA devices; the others are software.
pub(crate) fn is_rdma(provider: &str) -> bool {
    let core = provider.split(';').next().unwrap_or_default();
    !["tcp", "shm", "udp", "sockets", "net", "sm2"].contains(&core)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rdma_and_software_providers_are_distinguished() {
        for name in ["efa", "verbs;ofi_rxm", "psm3", "cxi"] {
            assert!(is_rdma(name), "{name}");
        }
        for name in ["tcp", "tcp;ofi_rxm", "shm", "udp;ofi_rxd"] {
            assert!(!is_rdma(name), "{name}");
        }
    }
}
