//! The providers of libfabric that an endpoint uses: which there are, which are allowed, and those that are open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::settings::Settings;
use crate::error::Error;
use crate::half::Fabric;
use crate::link::config::Policy;
use crate::link::protocol::control::Class;
use crate::ofi::{self, Choice, Config, Domain, Provider, UsableProvider};
use crate::region::Region;

pub(in crate::link) struct Providers {
    config: Config,
    /// Its name; none: the best.
    wish: Option<String>,
    /// Names of the RDMA devices that may be used; none: all.
    devices: Vec<String>,
    /// Whether software will do unasked: where nothing else may be used.
    software: bool,
    /// By the names of their paths.
    domains: Mutex<HashMap<String, Arc<Domain>>>,
}

impl Providers {
    pub(in crate::link) fn new(settings: &Settings) -> Self {
        let named = settings.devices.iter().chain(&settings.wish.device);
        Providers {
            config: settings.ofi.clone(),
            wish: settings.ofi_provider.clone(),
            devices: named.cloned().collect(),
            software: settings.classes == [Class::Ofi],
            domains: Mutex::default(),
        }
    }

    /// What is here, the best first, or why nothing is; may block.
    pub(in crate::link) fn look(&self) -> Result<Vec<Provider>, String> {
        let library = self.config.library.as_deref();
        let survey = ofi::survey(library).map_err(|off| format!("{off} — {}", off.fix()))?;
        let found = ofi::candidates(&survey, self.wish.as_deref(), self.software);
        let mut found = found.map_err(|refusal| refusal.to_string())?;
        found.retain(|provider| self.allows(provider));
        match found.is_empty() {
            true => Err(format!("libfabric has nothing on {}", self.devices.join(", "))),
            false => Ok(found),
        }
    }

    /// Whether it is software, or uses a device that may be used. libfabric adds the kind of endpoint to EFA's names
    /// (`rdmap0s6-rdm`).
    fn allows(&self, provider: &Provider) -> bool {
        let is_it = |device: &String| {
            let rest = provider.domain.strip_prefix(device.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.devices.is_empty() || !ofi::is_rdma(&provider.name) || self.devices.iter().any(is_it)
    }

    /// Registers a region with those that are open.
    pub(in crate::link) fn attach(&self, region: &Region) -> Result<(), Error> {
        self.domains().values().try_for_each(|domain| domain.attach(region))
    }

    /// One that is open already.
    pub(in crate::link) fn known(&self, path: &str) -> Option<Arc<Domain>> {
        self.domains().get(path).cloned()
    }

    /// Opens one, once for all links. `regions` are those that were registered before others can find it, so that none
    /// is missed.
    pub(in crate::link) fn open(
        &self,
        provider: &Provider,
        regions: impl FnOnce() -> Vec<Region>,
    ) -> Result<Arc<Domain>, Error> {
        let path = UsableProvider::of(provider).name();
        if let Some(known) = self.known(&path) {
            return Ok(known);
        }
        let choice = Choice { provider: provider.clone(), why: String::new() };
        // Not under the lock, which others need to register memory: a device may not answer.
        let domain = Arc::new(Domain::open(&choice, self.config.clone())?);
        let mut domains = self.domains();
        // Another link was quicker.
        if let Some(other) = domains.get(&path) {
            return Ok(other.clone());
        }
        regions().iter().try_for_each(|region| domain.attach(region))?;
        domains.insert(path, domain.clone());
        Ok(domain)
    }

    /// Lets go of one that did not work, unless somebody uses it: its device may have been lost, or have another address
    /// by now. It is opened anew when it is next wanted.
    pub(in crate::link) fn forget(&self, path: &str) {
        let mut domains = self.domains();
        let unused = domains.get(path).is_some_and(|domain| !domain.is_used());
        let forgotten = unused.then(|| domains.remove(path));
        // Before it is closed, which may take time: others need the lock to register memory.
        drop(domains);
        drop(forgotten);
    }

    fn domains(&self) -> MutexGuard<'_, HashMap<String, Arc<Domain>>> {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What both ends together demand of a path by libfabric.
#[derive(Debug, Clone, Copy)]
pub(in crate::link) struct Demands {
    pub(in crate::link) policy: Policy,
    /// Whether bytes on a wire must be encrypted.
    pub(in crate::link) encrypt: bool,
    /// Whether only peers with some GIDs may be talked to.
    pub(in crate::link) by_gid: bool,
}

impl Demands {
    /// Why a provider is not to be used.
    pub(in crate::link) fn obstacle(&self, provider: &str) -> Option<&'static str> {
        match (ofi::is_rdma(provider), self.policy) {
            (true, Policy::Off) => Some("RDMA is off by policy"),
            (true, _) if self.by_gid => Some("GIDs are limited to some, and libfabric tells none"),
            (false, Policy::Require) => Some("RDMA is required"),
            (false, _) if self.encrypt => Some("it must be encrypted, and libfabric cannot"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_device_is_the_only_one_that_is_used() {
        let provider = |name: &str, domain: &str| Provider {
            name: name.to_owned(),
            version: (1, 22),
            fabric: String::new(),
            domain: domain.to_owned(),
        };
        let devices = vec!["rdmap0s6".to_owned()];
        let named = Providers::new(&Settings { devices, ..Settings::default() });
        let allowed = [("efa", "rdmap0s6-rdm"), ("verbs;ofi_rxm", "rdmap0s6"), ("tcp", "eth0")];
        assert!(allowed.iter().all(|(name, domain)| named.allows(&provider(name, domain))));
        for other in ["rdmap0s60-rdm", "rdmap1s6-rdm", ""] {
            assert!(!named.allows(&provider("efa", other)), "{other}");
        }
        let all = Providers::new(&Settings::default());
        assert!(all.allows(&provider("efa", "rdmap1s6-rdm")));
    }

    #[cfg(feature = "external-tests")]
    #[test]
    fn one_that_did_not_work_is_opened_anew_unless_it_is_used() {
        use crate::half::Side;

        let providers =
            Providers::new(&Settings { classes: vec![Class::Ofi], ..Settings::default() });
        let provider = providers.look().unwrap().remove(0);
        let path = UsableProvider::of(&provider).name();
        let domain = providers.open(&provider, Vec::new).unwrap();
        let half = domain.half(Side::Dial).unwrap();
        providers.forget(&path);
        assert!(providers.known(&path).is_some_and(|known| Arc::ptr_eq(&known, &domain)));
        drop(half);
        providers.forget(&path);
        assert!(providers.known(&path).is_none());
        let anew = providers.open(&provider, Vec::new).unwrap();
        assert!(!Arc::ptr_eq(&anew, &domain));
    }
}
