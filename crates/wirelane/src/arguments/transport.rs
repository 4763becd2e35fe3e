//! `--transport` and `--policy`, which restrict the settings of links.

use clap::ValueEnum;
use fabric::link::{EndpointSettings, Policy, Transport};

use crate::output::Failure;

/// A transport of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportArg {
    Auto,
    Verbs,
    Ofi,
    Shm,
    Tcp,
}

/// Whether RDMA is required, preferred or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyArg {
    Require,
    Prefer,
    Off,
}

impl TransportArg {
    fn transport(self) -> Option<Transport> {
        match self {
            TransportArg::Auto => None,
            TransportArg::Verbs => Some(Transport::Verbs),
            TransportArg::Ofi => Some(Transport::Ofi),
            TransportArg::Shm => Some(Transport::Shm),
            TransportArg::Tcp => Some(Transport::Tcp),
        }
    }

    /// Restricts the settings of links to this transport.
    pub(crate) fn restrict(
        self,
        policy: Option<PolicyArg>,
        links: &mut EndpointSettings,
    ) -> Result<(), Failure> {
        let transport = self.transport();
        let policy = match (policy, transport) {
            (Some(PolicyArg::Require), _) => Some(Policy::Require),
            (Some(PolicyArg::Prefer), _) => Some(Policy::Prefer),
            (Some(PolicyArg::Off), Some(Transport::Verbs)) => {
                return Err(Failure::usage("--transport verbs contradicts --policy off"));
            }
            (Some(PolicyArg::Off), _) => Some(Policy::Off),
            (None, Some(Transport::Shm | Transport::Tcp)) => Some(Policy::Off),
            (None, _) => None,
        };
        if let Some(policy) = policy {
            links.policy = policy;
            links.peer_policies.clear();
        }
        let switched_off = !links.transports.contains(&Transport::Verbs);
        // Providers of libfabric may be software, which is known only after it is queried.
        if switched_off && (policy == Some(Policy::Require) || transport == Some(Transport::Verbs))
        {
            return Err(Failure::no("RDMA is requested, but transport.enable_rdma is false"));
        }
        if let Some(transport) = transport {
            links.transports = vec![transport];
        }
        Ok(())
    }
}
