//! A path by libfabric, as the ends of a link describe it to each other.

use super::survey::Provider;

/// A provider, and where it leads, all in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsableProvider {
    /// Such as `efa` or `tcp;ofi_rxm`.
    pub(crate) provider: String,
    /// Such as `efa` or `192.0.2.0/24`.
    pub(crate) network: String,
    /// The device or interface.
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

    /// Its name among the paths of a host.
    pub(crate) fn name(&self) -> String {
        format!("{} {} {}", self.provider, self.interface, self.network)
    }

    /// Whether it uses a device that moves bytes without the kernel.
    pub(crate) fn is_rdma(&self) -> bool {
        is_rdma(&self.provider)
    }

    /// Whether it leads nowhere but to this host.
    pub(crate) fn is_loopback(&self) -> bool {
        self.network.starts_with("127.") || self.network.starts_with("::1")
    }

    /// Whether its addresses mean nothing to another host, since they name an interface of this one.
    pub(super) fn is_link_local(&self) -> bool {
        !self.is_rdma() && self.network.starts_with("fe80:")
    }
}

/// Whether a provider of this name drives devices that do RDMA; the others are software.
pub(crate) fn is_rdma(provider: &str) -> bool {
    let core = provider.split(';').next().unwrap_or_default();
    !["tcp", "shm", "udp", "sockets", "net", "sm2"].contains(&core)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_software_are_told_apart() {
        for name in ["efa", "verbs;ofi_rxm", "psm3", "cxi"] {
            assert!(is_rdma(name), "{name}");
        }
        for name in ["tcp", "tcp;ofi_rxm", "shm", "udp;ofi_rxd"] {
            assert!(!is_rdma(name), "{name}");
        }
    }
}
