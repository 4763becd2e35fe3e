//! The devices of an endpoint: each is opened once for all links, and released when it is lost.

use std::collections::HashMap;
use std::sync::Arc;

use super::ports::DeviceList;
use super::providers::Requirements;
use super::settings::EndpointSettings;
use super::{Inner, lock};
use crate::error::{Error, ErrorKind};
use crate::link::protocol::hello::port_name;
use crate::region::{Region, WeakRegion};
use crate::setup::Fabric;
use crate::{ofi, verbs};

impl Inner {
    /// Releases a device that is broken, unless the lock is taken: it may be about to be opened.
    pub(super) fn release_broken(&self, name: &str) {
        if let Ok(mut domains) = self.domains.try_lock()
            && domains.get(name).is_some_and(|domain| domain.is_broken().is_some())
        {
            self.drop_domain(&mut domains, name);
        }
    }

    fn drop_domain(&self, domains: &mut HashMap<String, Arc<verbs::Domain>>, name: &str) {
        if let Some(old) = domains.remove(name) {
            self.regions().iter().for_each(|region| old.detach(region));
        }
    }

    /// A provider of libfabric by its name, opened once for all links.
    pub(super) fn provider(
        &self,
        name: &str,
        requirements: Requirements,
    ) -> Result<Arc<ofi::Domain>, Error> {
        let refuse = |kind, why: &str| {
            let fix = "use a transport that both ends have and allow";
            Error::new(kind, format!("use {name}"), why, fix)
        };
        let allow = |provider: &str| match requirements.refusal(provider) {
            Some(why) => Err(refuse(ErrorKind::Denied, why)),
            None => Ok(()),
        };
        let Some(providers) = &self.providers else {
            return Err(refuse(ErrorKind::Denied, "libfabric is not enabled at this end"));
        };
        if let Some(domain) = providers.opened(name) {
            allow(domain.provider())?;
            return Ok(domain);
        }
        let DeviceList { providers: here, no_ofi, .. } = self.ports.query();
        let provider =
            here.iter().find(|provider| ofi::UsableProvider::of(provider).name() == name);
        let provider = provider.ok_or_else(|| match no_ofi.is_empty() {
            true => refuse(ErrorKind::Unsupported, "the provider no longer exists"),
            false => refuse(ErrorKind::Unsupported, &no_ofi),
        })?;
        allow(&provider.name)?;
        providers.open(provider, || self.regions())
    }

    /// A device, opened once for all links, and opened again if it was lost.
    pub(super) fn domain(&self, name: &str) -> Result<Arc<verbs::Domain>, Error> {
        let known = lock(&self.domains).get(name).cloned();
        if let Some(domain) = known.filter(|domain| domain.port_problem().is_none()) {
            return Ok(domain);
        }
        self.release_broken(name);
        let unusable = |why: String| {
            let fix = "see `wirelane devices`";
            Error::new(ErrorKind::Unsupported, format!("use {name}"), why, fix)
        };
        // Without the lock, which is needed to register memory: a device may not answer.
        let DeviceList { choices, ports, refused, .. } = self.ports.query();
        let at = ports.iter().position(|known| port_name(known) == name);
        let choice = at.and_then(|at| choices.get(at)).ok_or_else(|| match refused.is_empty() {
            true => unusable("the port no longer exists".to_owned()),
            false => unusable(refused),
        })?;
        let EndpointSettings { library, verbs, .. } = &self.settings;
        let domain = Arc::new(verbs::Domain::open_with(library, choice, verbs.clone())?);
        let mut domains = lock(&self.domains);
        // Another link has opened it at the same time.
        if let Some(other) = domains.get(name)
            && other.port_problem().is_none()
        {
            return Ok(other.clone());
        }
        // Its address has changed: the old domain is of no use.
        self.drop_domain(&mut domains, name);
        self.regions().iter().try_for_each(|region| domain.attach(region))?;
        domains.insert(name.to_owned(), domain.clone());
        Ok(domain)
    }

    pub(super) fn regions(&self) -> Vec<Region> {
        lock(&self.regions).iter().filter_map(WeakRegion::upgrade).collect()
    }
}
