//! The libfabric providers of an endpoint: available, allowed, and open ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::settings::EndpointSettings;
use crate::error::Error;
use crate::link::config::Policy;
use crate::link::protocol::control::Transport;
use crate::ofi::{self, Choice, Config, Domain, Provider, UsableProvider};
use crate::region::Region;
use crate::setup::Fabric;

pub(in crate::link) struct Providers {
    config: Config,
    /// The requested provider; `None`: the best.
    requested: Option<String>,
    /// Names of the enabled RDMA devices; empty: all.
    devices: Vec<String>,
    /// Whether software providers are used without being requested: if libfabric is the only transport.
    software: bool,
    /// Open domains by the name of their provider.
    domains: Mutex<HashMap<String, Arc<Domain>>>,
}

impl Providers {
    pub(in crate::link) fn new(settings: &EndpointSettings) -> Self {
        let named = settings.devices.iter().chain(&settings.device_request.device);
        Providers {
            config: settings.ofi.clone(),
            requested: settings.ofi_provider.clone(),
            devices: named.cloned().collect(),
            software: settings.transports == [Transport::Ofi],
            domains: Mutex::default(),
        }
    }

    /// The available providers, the best first, or why there are none; may block.
    pub(in crate::link) fn query(&self) -> Result<Vec<Provider>, String> {
        let library = self.config.library.as_deref();
        let listed =
            ofi::list_providers(library).map_err(|off| format!("{off} — {}", off.fix()))?;
        let found = ofi::candidates(&listed, self.requested.as_deref(), self.software);
        let mut found = found.map_err(|refusal| refusal.to_string())?;
        found.retain(|provider| self.allows(provider));
        match found.is_empty() {
            true => Err(format!("libfabric has no provider on {}", self.devices.join(", "))),
            false => Ok(found),
        }
    }

    /// Whether a provider is software, or uses an enabled device. libfabric appends the endpoint type to EFA's names
    /// (`rdmap0s6-rdm`).
    fn allows(&self, provider: &Provider) -> bool {
        let is_it = |device: &String| {
            let rest = provider.domain.strip_prefix(device.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.devices.is_empty() || !ofi::is_rdma(&provider.name) || self.devices.iter().any(is_it)
    }

    /// Registers a region with all open domains.
    pub(in crate::link) fn attach(&self, region: &Region) -> Result<(), Error> {
        self.domains().values().try_for_each(|domain| domain.attach(region))
    }

    /// An open domain.
    pub(in crate::link) fn opened(&self, name: &str) -> Option<Arc<Domain>> {
        self.domains().get(name).cloned()
    }

    /// Opens a domain, once for all links. `regions` is called under the lock, before `attach` can find the domain, so that
    /// no region is missed.
    pub(in crate::link) fn open(
        &self,
        provider: &Provider,
        regions: impl FnOnce() -> Vec<Region>,
    ) -> Result<Arc<Domain>, Error> {
        let name = UsableProvider::of(provider).name();
        if let Some(known) = self.opened(&name) {
            return Ok(known);
        }
        let choice = Choice { provider: provider.clone(), why: String::new() };
        // Without the lock, which is needed to register memory: a device may not answer.
        let domain = Arc::new(Domain::open(&choice, self.config.clone())?);
        let mut domains = self.domains();
        // Another link has opened it at the same time.
        if let Some(other) = domains.get(&name) {
            return Ok(other.clone());
        }
        regions().iter().try_for_each(|region| domain.attach(region))?;
        domains.insert(name, domain.clone());
        Ok(domain)
    }

    /// Closes a domain that failed, unless it is in use: its device may be lost, or have another address
    /// now. It is opened again when it is next needed.
    pub(in crate::link) fn close_unused(&self, name: &str) {
        let mut domains = self.domains();
        let unused = domains.get(name).is_some_and(|domain| !domain.is_used());
        let forgotten = unused.then(|| domains.remove(name));
        // Closing may take time: the lock is needed to register memory.
        drop(domains);
        drop(forgotten);
    }

    fn domains(&self) -> MutexGuard<'_, HashMap<String, Arc<Domain>>> {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requirements of both ends on a libfabric provider.
#[derive(Debug, Clone, Copy)]
pub(in crate::link) struct Requirements {
    pub(in crate::link) policy: Policy,
    /// Whether network traffic must be encrypted.
    pub(in crate::link) encrypt: bool,
    /// Whether `allowed_gids` restricts the peers.
    pub(in crate::link) restricts_gids: bool,
}

impl Requirements {
    /// Why a provider must not be used, if so.
    pub(in crate::link) fn refusal(&self, provider: &str) -> Option<&'static str> {
        match (ofi::is_rdma(provider), self.policy) {
            (true, Policy::Off) => Some("RDMA is off by policy"),
            (true, _) if self.restricts_gids => {
                Some("allowed_gids is set, and libfabric reports no GIDs")
            }
            (false, Policy::Require) => Some("RDMA is required"),
            (false, _) if self.encrypt => Some("encryption is required, and libfabric has none"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_enabled_devices_are_used() {
        let provider = |name: &str, domain: &str| Provider {
            name: name.to_owned(),
            version: (1, 22),
            fabric: String::new(),
            domain: domain.to_owned(),
        };
        let devices = vec!["rdmap0s6".to_owned()];
        let named = Providers::new(&EndpointSettings { devices, ..EndpointSettings::default() });
        let allowed = [("efa", "rdmap0s6-rdm"), ("verbs;ofi_rxm", "rdmap0s6"), ("tcp", "eth0")];
        assert!(allowed.iter().all(|(name, domain)| named.allows(&provider(name, domain))));
        for other in ["rdmap0s60-rdm", "rdmap1s6-rdm", ""] {
            assert!(!named.allows(&provider("efa", other)), "{other}");
        }
        let all = Providers::new(&EndpointSettings::default());
        assert!(all.allows(&provider("efa", "rdmap1s6-rdm")));
    }

    #[cfg(feature = "external-tests")]
    #[test]
    fn a_forgotten_domain_is_opened_again_unless_it_is_in_use() {
        use crate::setup::Side;

        let providers = Providers::new(&EndpointSettings {
            transports: vec![Transport::Ofi],
            ..EndpointSettings::default()
        });
        let provider = providers.query().unwrap().remove(0);
        let name = UsableProvider::of(&provider).name();
        let domain = providers.open(&provider, Vec::new).unwrap();
        let unconnected = domain.prepare_lane(Side::Dial).unwrap();
        providers.close_unused(&name);
        assert!(providers.opened(&name).is_some_and(|known| Arc::ptr_eq(&known, &domain)));
        drop(unconnected);
        providers.close_unused(&name);
        assert!(providers.opened(&name).is_none());
        let reopened = providers.open(&provider, Vec::new).unwrap();
        assert!(!Arc::ptr_eq(&reopened, &domain));
    }
}
