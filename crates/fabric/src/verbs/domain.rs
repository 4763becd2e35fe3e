//! An open device and its protection domain, with which memory is registered.
//!
//! Unsafe here: `Pd` owns the C object and the open device; it is created and freed once.
#![allow(unsafe_code, reason = "owns a protection domain")]

use std::collections::HashMap;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rdma_sys::objects::ibv_pd;

use super::choose::Choice;
use super::config::Config;
use super::context::Context;
use super::device::QueryError;
use super::events::EventCounts;
use super::list_devices::list;
use super::message_memory::MessageMemory;
use super::mr::{self, is_registered};
use super::open_port::OpenPort;
use super::unconnected_lane::UnconnectedVerbsLane;
use crate::error::{Error, ErrorKind};
use crate::memory::{Memory, Pages};
use crate::region::{Region, Rights};
use crate::registration::Registration;
use crate::registration::verbs::Mr;
use crate::registration::verbs::Registrations;
use crate::setup::{Direction, Fabric, Side, UnconnectedLane};

/// An open port of a device, with the protection domain in which memory is registered: a [`Fabric`].
#[derive(Debug)]
pub struct Domain {
    open_port: Arc<OpenPort>,
    /// Registrations by the memory's id; allocations are not intercepted.
    registered: Mutex<HashMap<(u64, Rights), Weak<Mr>>>,
    /// For messages, by direction.
    message_memory: [MessageMemory; 2],
}

impl Domain {
    /// Opens the chosen device with the default settings.
    pub fn open(library: &Path, choice: &Choice) -> Result<Self, Error> {
        Self::open_with(library, choice, Config::default())
    }

    /// Opens the chosen device. `library` is the file of libibverbs.
    pub fn open_with(library: &Path, choice: &Choice, config: Config) -> Result<Self, Error> {
        let call = || format!("open {}", choice.device);
        let devices = list(library)
            .map_err(|off| Error::new(ErrorKind::Unsupported, call(), &off, off.fix()))?;
        let listed = devices.iter().find(|device| device.name() == choice.device);
        let listed = listed.ok_or_else(|| {
            let fix = "run `wirelane devices` to list the devices";
            Error::new(ErrorKind::Gone, call(), "the device was removed", fix)
        })?;
        let context = listed.open().map_err(|errno| {
            let why = QueryError::open(&listed.node(), errno);
            let kind = if why.is_denied() { ErrorKind::Denied } else { ErrorKind::System };
            Error::new(kind, call(), why, "run `wirelane devices` to list the devices")
        })?;
        let pd = Pd::new(Arc::new(context)).map_err(|errno| {
            Error::new(ErrorKind::System, call(), errno, "check the kernel log")
        })?;
        let message_memory = config.message_memory.map(MessageMemory::new);
        let open_port = Arc::new(OpenPort::new(Arc::new(pd), choice, config)?);
        Ok(Domain { open_port, registered: Mutex::default(), message_memory })
    }

    /// The settings that it was opened with.
    pub fn config(&self) -> &Config {
        &self.open_port.config
    }

    /// Counts of the device's events since it was opened.
    pub fn event_counts(&self) -> EventCounts {
        self.open_port.events.read();
        self.open_port.events.event_counts()
    }

    /// Why the device is permanently unusable for this domain: it has failed, or was removed. `None` if it is not.
    /// Drop the domain and its lanes, and open another when the device is back. Each call queries the kernel; once a
    /// second is often enough.
    pub fn is_broken(&self) -> Option<String> {
        self.open_port.broken()
    }

    /// Why lanes of this domain cannot be opened now: it is broken, its port is not active, or its GID has changed.
    /// Unless it is broken, this may be temporary; a
    /// port that gets another address needs another domain. Each call queries the device.
    pub fn port_problem(&self) -> Option<String> {
        self.open_port.problem()
    }

    /// Registers all of `memory`. Calls with the same memory and rights share one registration.
    pub fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error> {
        let mr = self.mr(memory, rights)?;
        Ok(Region::new(memory.clone(), rights, Registration::Verbs(mr)))
    }

    /// The registration of this memory with these rights, created if there is none.
    fn mr(&self, memory: &Memory, rights: Rights) -> Result<Arc<Mr>, Error> {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (memory.id(), rights);
        if let Some(mr) = registered.get(&key).and_then(Weak::upgrade) {
            return Ok(mr);
        }
        let OpenPort { pd, choice, .. } = &*self.open_port;
        let mr = Arc::new(mr::register(&choice.device, pd.clone(), memory, rights)?);
        // Removes registrations that have ended.
        registered.retain(|_, mr| mr.strong_count() > 0);
        registered.insert(key, Arc::downgrade(&mr));
        Ok(mr)
    }
}

impl Fabric for Domain {
    fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error> {
        Domain::register(self, memory, rights)
    }

    /// A region can be attached to at most 16 domains at a time. Once the domain and all its lanes are dropped, its
    /// regions are detached: they do not keep the device open.
    fn attach(&self, region: &Region) -> Result<(), Error> {
        let pd = &self.open_port.pd;
        if is_registered(region, pd) {
            return Ok(());
        }
        let refused = |kind, why: &str, fix: &str| {
            let call = format!("attach a region to {}", self.open_port.choice.device);
            Error::new(kind, call, why, fix)
        };
        let Registration::Shared(keys) = region.registration() else {
            let why = "it is registered with another fabric, and not shared";
            return Err(refused(ErrorKind::Misuse, why, "create it with `Region::shared`"));
        };
        if !keys.verbs.add(self.mr(region.memory(), region.rights())?) {
            let why = format!("it is already attached to {} domains", Registrations::MAX);
            return Err(refused(ErrorKind::Full, &why, "detach it from domains that are not used"));
        }
        self.open_port.attached.add(region);
        Ok(())
    }

    fn detach(&self, region: &Region) {
        if let Registration::Shared(keys) = region.registration() {
            keys.verbs.remove(self.open_port.pd.number());
            self.open_port.attached.remove(region);
        }
    }

    fn uses_srq(&self) -> bool {
        self.open_port.shared.is_some()
    }

    fn message_memory(&self, direction: Direction, bytes: usize) -> Result<Region, Error> {
        let register = || self.register(&Memory::allocate(bytes, Pages::Plain)?, Rights::NONE);
        let may_fill = |bytes: usize| mr::may_lock(4 * bytes as u64);
        self.message_memory[direction as usize].take(bytes, register, may_fill)
    }

    fn return_message_memory(&self, direction: Direction, region: Region) {
        self.message_memory[direction as usize].put(region);
    }

    /// Both sides are the same.
    fn prepare_lane(&self, _side: Side) -> Result<Box<dyn UnconnectedLane>, Error> {
        Ok(Box::new(UnconnectedVerbsLane::new(self.open_port.clone())?))
    }
}

/// A protection domain.
pub(super) struct Pd {
    /// Unique in this process, never reused, and not 0: a region looks up its keys by it.
    number: u32,
    context: Arc<Context>,
    pd: NonNull<ibv_pd>,
}

// SAFETY: libibverbs' objects may be used from any thread, and from several concurrently.
unsafe impl Send for Pd {}
// SAFETY: methods that take `&self` may be called from several threads: libibverbs locks its objects.
unsafe impl Sync for Pd {}

impl Pd {
    fn new(context: Arc<Context>) -> Result<Self, rdma_sys::Errno> {
        // SAFETY: the device is open as long as `context` is alive, which `Pd` owns.
        let pd = unsafe { context.verbs().ibv_alloc_pd(context.as_ptr()) }?;
        // Does not overflow: opening four billion domains would take years.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Ok(Pd { number: NEXT.fetch_add(1, Ordering::Relaxed), context, pd })
    }

    #[inline]
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_pd {
        self.pd.as_ptr()
    }
}

impl std::fmt::Debug for Pd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pd")
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: created in `new`, freed here only; its child objects own it by `Arc` and were dropped before.
        let _ = unsafe { self.context.verbs().ibv_dealloc_pd(self.pd.as_ptr()) };
    }
}
