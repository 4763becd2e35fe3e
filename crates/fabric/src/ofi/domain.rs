//! An open provider: a [`Fabric`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::choose::Choice;
use super::config::Config;
use super::environment::{environment_problem, variable};
use super::failure::error;
use super::fid_domain::FidDomain;
use super::info::{Facts, Query};
use super::library::library;
use super::list_providers::Unavailable;
use super::mr::{self, registration};
use super::unconnected_lane::UnconnectedOfiLane;
use crate::attached_regions::AttachedRegions;
use crate::error::{Error, ErrorKind};
use crate::memory::Memory;
use crate::region::{Region, Rights};
use crate::registration::Registration;
use crate::registration::ofi::Mr;
use crate::setup::{Fabric, Side, UnconnectedLane};

/// An open provider, with the domain in which memory is registered: a [`Fabric`].
#[derive(Debug)]
pub struct Domain {
    shared: Arc<Shared>,
    /// Registrations by the memory's id; allocations are not intercepted.
    registered: Mutex<HashMap<(u64, Rights), Weak<Mr>>>,
}

/// The state that all lanes of a domain share.
pub(super) struct Shared {
    pub(super) fid_domain: Arc<FidDomain>,
    pub(super) config: Config,
    attached: AttachedRegions,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("fid_domain", &self.fid_domain).finish_non_exhaustive()
    }
}

impl Domain {
    /// Opens the chosen provider.
    pub fn open(choice: &Choice, config: Config) -> Result<Self, Error> {
        let chosen = &choice.provider;
        let call = || format!("open libfabric provider {}", chosen.name);
        let ofi = library(config.library.as_deref()).map_err(|error| {
            let off = Unavailable::Library(error);
            Error::new(ErrorKind::Unsupported, call(), &off, off.fix())
        })?;
        if let Some((why, fix)) = environment_problem(&chosen.name, variable) {
            return Err(Error::new(ErrorKind::Unsupported, call(), why, &fix));
        }
        let query = Query { provider: Some(&chosen.name), address: config.address };
        let gone = |why: &dyn std::fmt::Display| {
            let fix = "check the output of `fi_info -t FI_EP_RDM`, and the local addresses";
            Error::new(ErrorKind::Gone, call(), why, fix)
        };
        let mut found = query.find(ofi).map_err(|errno| gone(&errno))?;
        // An address determines the interface.
        let is_chosen = |facts: &Facts| {
            let same_interface = (&facts.fabric, &facts.domain) == (&chosen.fabric, &chosen.domain);
            facts.provider == chosen.name && (config.address.is_some() || same_interface)
        };
        found.retain(|info| is_chosen(&info.facts()));
        let info = found.into_iter().next();
        let info = info.ok_or_else(|| gone(&"the provider or interface was removed"))?;
        let facts = info.facts();
        let fid_domain = FidDomain::open(info).map_err(|errno| error(&facts, "open", errno))?;
        let attached =
            AttachedRegions::new(fid_domain.number(), |keys, domain| keys.ofi.remove(domain));
        let shared = Shared { fid_domain: Arc::new(fid_domain), config, attached };
        Ok(Domain { shared: Arc::new(shared), registered: Mutex::default() })
    }

    #[cfg(all(test, feature = "external-tests"))]
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether it has lanes, connected or not.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }

    /// The settings that it was opened with.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The provider's name, such as `tcp;ofi_rxm`.
    pub fn provider(&self) -> &str {
        &self.shared.fid_domain.facts().provider
    }

    /// The device or interface, as the provider names it.
    pub fn interface(&self) -> &str {
        &self.shared.fid_domain.facts().domain
    }

    /// The registration of this memory with these rights, created if there is none.
    fn mr(&self, memory: &Memory, rights: Rights) -> Result<Arc<Mr>, Error> {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (memory.id(), rights);
        if let Some(mr) = registered.get(&key).and_then(Weak::upgrade) {
            return Ok(mr);
        }
        let mr = Arc::new(mr::register(self.shared.fid_domain.clone(), memory, rights)?);
        // Removes registrations that have ended.
        registered.retain(|_, mr| mr.strong_count() > 0);
        registered.insert(key, Arc::downgrade(&mr));
        Ok(mr)
    }
}

impl Fabric for Domain {
    fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error> {
        let mr = self.mr(memory, rights)?;
        Ok(Region::new(memory.clone(), rights, Registration::Ofi(mr)))
    }

    /// Once the domain and all its lanes are dropped, its regions are detached: they do not keep the provider open.
    fn attach(&self, region: &Region) -> Result<(), Error> {
        if registration(region, self.shared.fid_domain.number()).is_some() {
            return Ok(());
        }
        let Registration::Shared(keys) = region.registration() else {
            let call = format!("attach a region to {}", self.provider());
            let why = "it is registered with another fabric, and not shared";
            return Err(Error::new(
                ErrorKind::Misuse,
                call,
                why,
                "create it with `Region::shared`",
            ));
        };
        keys.ofi.add(self.mr(region.memory(), region.rights())?);
        self.shared.attached.add(region);
        Ok(())
    }

    fn detach(&self, region: &Region) {
        if let Registration::Shared(keys) = region.registration() {
            keys.ofi.remove(self.shared.fid_domain.number());
            self.shared.attached.remove(region);
        }
    }

    /// Both sides are the same.
    fn prepare_lane(&self, _side: Side) -> Result<Box<dyn UnconnectedLane>, Error> {
        Ok(Box::new(UnconnectedOfiLane::new(self.shared.clone())?))
    }
}
