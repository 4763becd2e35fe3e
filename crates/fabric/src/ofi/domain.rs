//! A provider in use: a [`Fabric`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::choose::Choice;
use super::config::Config;
use super::device::Device;
use super::environment::{obstacle, variable};
use super::failure::error;
use super::half::OfiHalf;
use super::info::{Facts, Query};
use super::library::library;
use super::mr::{self, registration};
use super::survey::Unavailable;
use crate::attached::Attached;
use crate::error::{Error, Kind};
use crate::half::{Fabric, Half, Side};
use crate::memory::Memory;
use crate::region::{Region, Rights};
use crate::registration::Registration;
use crate::registration::ofi::Mr;

/// A provider in use: a [`Fabric`].
#[derive(Debug)]
pub struct Domain {
    shared: Arc<Shared>,
    /// What is registered, by the memory's own handle: never found out by watching allocations.
    registered: Mutex<HashMap<(u64, Rights), Weak<Mr>>>,
}

/// What a domain's lanes share.
pub(super) struct Shared {
    pub(super) device: Arc<Device>,
    pub(super) config: Config,
    attached: Attached,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Domain {
    /// Opens the chosen provider.
    pub fn open(choice: &Choice, config: Config) -> Result<Self, Error> {
        let wanted = &choice.provider;
        let call = || format!("open {} by libfabric", wanted.name);
        let ofi = library(config.library.as_deref()).map_err(|error| {
            let off = Unavailable::Library(error);
            Error::new(Kind::Unsupported, call(), &off, off.fix())
        })?;
        if let Some((why, fix)) = obstacle(&wanted.name, variable) {
            return Err(Error::new(Kind::Unsupported, call(), why, &fix));
        }
        let query = Query { provider: Some(&wanted.name), address: config.address };
        let gone = |why: &dyn std::fmt::Display| {
            let fix = "see what `fi_info -t FI_EP_RDM` lists, and which addresses are here";
            Error::new(Kind::Gone, call(), why, fix)
        };
        let mut found = query.find(ofi).map_err(|errno| gone(&errno))?;
        // An address chooses the interface by itself.
        let is_wanted = |facts: &Facts| {
            let is_there = (&facts.fabric, &facts.domain) == (&wanted.fabric, &wanted.domain);
            facts.provider == wanted.name && (config.address.is_some() || is_there)
        };
        found.retain(|info| is_wanted(&info.facts()));
        let info = found.into_iter().next();
        let info = info.ok_or_else(|| gone(&"it is not there any more"))?;
        let facts = info.facts();
        let device = Device::open(info).map_err(|errno| error(&facts, "open", errno))?;
        let attached = Attached::to(device.number(), |keys, domain| keys.ofi.remove(domain));
        let shared = Shared { device: Arc::new(device), config, attached };
        Ok(Domain { shared: Arc::new(shared), registered: Mutex::default() })
    }

    #[cfg(all(test, feature = "external-tests"))]
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether it has lanes, or halves of some.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }

    /// As it was opened.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The provider's name, such as `tcp;ofi_rxm`.
    pub fn provider(&self) -> &str {
        &self.shared.device.facts().provider
    }

    /// The device or interface, in the provider's words.
    pub fn interface(&self) -> &str {
        &self.shared.device.facts().domain
    }

    /// The one registration of this memory with these rights.
    fn mr(&self, memory: &Memory, rights: Rights) -> Result<Arc<Mr>, Error> {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (memory.id(), rights);
        if let Some(mr) = registered.get(&key).and_then(Weak::upgrade) {
            return Ok(mr);
        }
        let mr = Arc::new(mr::register(self.shared.device.clone(), memory, rights)?);
        // What has ended meanwhile makes room.
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

    /// Once the domain and all its lanes are gone, its regions are detached: they do not keep the provider open.
    fn attach(&self, region: &Region) -> Result<(), Error> {
        if registration(region, self.shared.device.number()).is_some() {
            return Ok(());
        }
        let Registration::Several(keys) = region.registration() else {
            let call = format!("attach a region to {}", self.provider());
            let why = "it was registered with another fabric, and for that one only";
            return Err(Error::new(Kind::Misuse, call, why, "make it with `Region::shared`"));
        };
        keys.ofi.add(self.mr(region.memory(), region.rights())?);
        self.shared.attached.add(region);
        Ok(())
    }

    fn detach(&self, region: &Region) {
        if let Registration::Several(keys) = region.registration() {
            keys.ofi.remove(self.shared.device.number());
            self.shared.attached.remove(region);
        }
    }

    /// Both sides are alike.
    fn half(&self, _side: Side) -> Result<Box<dyn Half>, Error> {
        Ok(Box::new(OfiHalf::new(self.shared.clone())?))
    }
}
