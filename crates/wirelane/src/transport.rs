//! Which kind of way links may go: `--transport`, for every command that has it.

use clap::ValueEnum;
use fabric::link::{Class, Policy, Settings};

use crate::exit::Failure;

/// The best that both ends have, or one kind only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    Auto,
    Verbs,
    Shm,
    Tcp,
}

impl Transport {
    fn class(self) -> Option<Class> {
        match self {
            Transport::Auto => None,
            Transport::Verbs => Some(Class::Verbs),
            Transport::Shm => Some(Class::Shm),
            Transport::Tcp => Some(Class::Tcp),
        }
    }

    /// Leaves of the settings what this allows. A policy that was typed counts; else shm and tcp put
    /// the settings' policy aside.
    pub(crate) fn narrow(
        self,
        policy: Option<Policy>,
        links: &mut Settings,
    ) -> Result<(), Failure> {
        let class = self.class();
        let policy = match (policy, class) {
            (Some(Policy::Off), Some(Class::Verbs)) => {
                return Err(Failure::usage("--transport verbs contradicts --policy off"));
            }
            (None, Some(Class::Shm | Class::Tcp)) => Some(Policy::Off),
            (policy, _) => policy,
        };
        if let Some(policy) = policy {
            links.policy = policy;
            links.peer_policies.clear();
        }
        let switched_off = !links.classes.contains(&Class::Verbs);
        if switched_off && (policy == Some(Policy::Require) || class == Some(Class::Verbs)) {
            return Err(Failure::no("RDMA is asked for, and transport.enable_rdma is false"));
        }
        if let Some(class) = class {
            links.classes = vec![class];
        }
        Ok(())
    }
}
