//! `--transport` and `--policy`, which restrict the settings of links.

use clap::ValueEnum;
use fabric::link::{Class, Policy, Settings as LinkSettings};

use crate::output::Failure;

/// A transport of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
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

impl Transport {
    fn class(self) -> Option<Class> {
        match self {
            Transport::Auto => None,
            Transport::Verbs => Some(Class::Verbs),
            Transport::Ofi => Some(Class::Ofi),
            Transport::Shm => Some(Class::Shm),
            Transport::Tcp => Some(Class::Tcp),
        }
    }

    /// Restricts the settings of links to this transport.
    pub(crate) fn restrict(
        self,
        policy: Option<PolicyArg>,
        links: &mut LinkSettings,
    ) -> Result<(), Failure> {
        let class = self.class();
        let policy = match (policy, class) {
            (Some(PolicyArg::Require), _) => Some(Policy::Require),
            (Some(PolicyArg::Prefer), _) => Some(Policy::Prefer),
            (Some(PolicyArg::Off), Some(Class::Verbs)) => {
                return Err(Failure::usage("--transport verbs contradicts --policy off"));
            }
            (Some(PolicyArg::Off), _) => Some(Policy::Off),
            (None, Some(Class::Shm | Class::Tcp)) => Some(Policy::Off),
            (None, _) => None,
        };
        if let Some(policy) = policy {
            links.policy = policy;
            links.peer_policies.clear();
        }
        let switched_off = !links.classes.contains(&Class::Verbs);
        // Providers of libfabric may be software, which is known only after it is queried.
        if switched_off && (policy == Some(Policy::Require) || class == Some(Class::Verbs)) {
            return Err(Failure::no("RDMA is requested, but transport.enable_rdma is false"));
        }
        if let Some(class) = class {
            links.classes = vec![class];
        }
        Ok(())
    }
}
