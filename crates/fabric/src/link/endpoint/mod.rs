//! An endpoint: the devices, credentials and regions that the links of a process share.

mod devices;
mod lane_counters;
mod link_fabrics;
mod listener;
mod plan;
mod ports;
mod providers;
pub(super) mod settings;

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use self::lane_counters::LaneCounters;
use self::link_fabrics::LinkFabrics;
use self::plan::{Plans, combine_policies, plan};
use self::ports::{DeviceList, Ports};
use self::providers::Providers;
use self::settings::EndpointSettings;
use crate::error::{Error, ErrorKind};
use crate::grants::random;
use crate::link::config::{INTERNAL_SLOTS, Policy};
use crate::link::connected_link::{Link, NotUp};
use crate::link::core::{Core, CoreSetup};
use crate::link::messages::message_buffers::slot_size;
use crate::link::protocol::control::Transport;
use crate::link::protocol::hello::{Hello, port_name};
use crate::link::rails::connector::ThreadConnector;
use crate::link::report::{LinkInfo, LinkStatus, Report};
use crate::memory::Memory;
use crate::region::{Region, Rights, WeakRegion};
use crate::session::{self, Credentials, Session};
use crate::setup::Fabric;
use crate::stats::Stats;
use crate::{ofi, shm, tcp, verbs};

pub use self::listener::Listener;

/// Connects and accepts links. Clones are the same endpoint.
///
/// All links of an endpoint that use the same RDMA device share its protection domain: a peer that knows the key and the
/// address of a region that was granted to another peer can use it too. Use separate endpoints for peers that must not
/// trust each other.
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

struct Inner {
    settings: EndpointSettings,
    epoch: u64,
    boot_id: [u8; 16],
    /// Incoming streams of TCP lanes, from all listeners.
    connection_router: tcp::ConnectionRouter,
    ports: Arc<Ports>,
    /// libfabric, if it is enabled.
    providers: Option<Arc<Providers>>,
    /// Open devices by port name.
    domains: Mutex<HashMap<String, Arc<verbs::Domain>>>,
    /// Registered regions: devices that are opened later register them too.
    regions: Mutex<Vec<WeakRegion>>,
    links: Mutex<Vec<Weak<Report>>>,
    lane_counters: LaneCounters,
}

impl Endpoint {
    /// Opens no device: that is done for the first peer that needs one.
    pub fn new(mut settings: EndpointSettings) -> Result<Self, Error> {
        let call = "create an endpoint";
        if settings.verbs.qp_type != verbs::QpType::Rc {
            let why = "links need reliable connections: datagrams lose messages, and cannot write or \
            read; DC is not implemented";
            let fix = "set rdma_qp_type to RC; UD is for bare lanes";
            return Err(Error::new(ErrorKind::Unsupported, call, why, fix));
        }
        let can_rdma =
            |transport: &Transport| matches!(transport, Transport::Verbs | Transport::Ofi);
        if settings.policy == Policy::Require && !settings.transports.iter().any(can_rdma) {
            let why = "RDMA is required, but neither verbs nor libfabric is enabled";
            return Err(Error::new(
                ErrorKind::Misuse,
                call,
                why,
                "enable verbs, or do not require RDMA",
            ));
        }
        if settings.transports.is_empty() {
            let why = "no transport is enabled";
            return Err(Error::new(ErrorKind::Misuse, call, why, "enable at least tcp"));
        }
        settings.link.check().map_err(|why| {
            Error::new(ErrorKind::Misuse, call, why, "see the documentation of the link's settings")
        })?;
        if let Some(queue) = &mut settings.verbs.srq {
            // As long as the messages of links, and as many for each lane as its peer may send.
            queue.max_message = (slot_size(settings.link.max_payload) as u32).max(256);
            queue.max_unexpected =
                u32::from(settings.link.message_slots) + u32::from(INTERNAL_SLOTS);
        }
        let has = |transport| settings.transports.contains(&transport);
        let providers = has(Transport::Ofi).then(|| Arc::new(Providers::new(&settings)));
        let ports = Ports {
            library: has(Transport::Verbs).then(|| settings.library.clone()),
            providers: providers.clone(),
            devices: settings.devices.clone(),
            device_request: settings.device_request.clone(),
            cache: Mutex::default(),
        };
        Ok(Endpoint {
            inner: Arc::new(Inner {
                settings,
                ports: Arc::new(ports),
                providers,
                epoch: random()? as u64,
                boot_id: shm::boot_id()?,
                connection_router: tcp::ConnectionRouter::default(),
                domains: Mutex::default(),
                regions: Mutex::default(),
                links: Mutex::default(),
                lane_counters: LaneCounters::default(),
            }),
        })
    }

    /// Registers memory for all links of this endpoint, with all devices.
    pub fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error> {
        let region = Region::shared(memory, rights);
        // The list first: a device that is opened between the two locks finds the region there.
        let mut regions = lock(&self.inner.regions);
        regions.retain(|region| !region.is_gone());
        regions.push(region.downgrade());
        drop(regions);
        for domain in lock(&self.inner.domains).values() {
            domain.attach(&region)?;
        }
        if let Some(providers) = &self.inner.providers {
            providers.attach(&region)?;
        }
        Ok(region)
    }

    /// Opens every enabled RDMA device, and registers all regions with it; returns the
    /// errors. Otherwise this is done when the first peer needs a device, which then waits: registering much memory
    /// takes seconds.
    pub fn open_devices(&self) -> Vec<Error> {
        if self.inner.settings.policy == Policy::Off || !self.inner.ports.is_enabled() {
            return Vec::new();
        }
        let DeviceList { ports, providers, .. } = self.inner.ports.query();
        let verbs = ports.iter().filter_map(|port| self.inner.domain(&port_name(port)).err());
        // Software providers are quick to open later.
        let devices = providers.iter().filter(|provider| ofi::is_rdma(&provider.name));
        let open = |provider| {
            let regions = || self.inner.regions();
            self.inner.providers.as_ref()?.open(provider, regions).err()
        };
        verbs.chain(devices.filter_map(open)).collect()
    }

    /// Connects a link to the endpoint that listens on `address`; waits until a rail is up, at most `limit`.
    pub fn connect(&self, address: SocketAddr, limit: Duration) -> Result<Link, Error> {
        self.connect_as(&self.inner.settings.credentials, address, limit)
    }

    /// As [`Endpoint::connect`], with other credentials than those in the settings, such as a ticket.
    pub fn connect_as(
        &self,
        credentials: &Credentials,
        address: SocketAddr,
        limit: Duration,
    ) -> Result<Link, Error> {
        let inner = &self.inner;
        let started = std::time::Instant::now();
        let ours = inner
            .hello(inner.settings.policy_for(address.ip()), || inner.ports.query_within(limit / 2));
        let config = session::Config { peer_timeout: inner.settings.link.peer_timeout };
        let session = loop {
            let left = limit.saturating_sub(started.elapsed());
            match session::connect(address, credentials, &ours.to_bytes(), &config, left) {
                // The listener has too many connections: try again for a while.
                Err(error)
                    if error.kind() == ErrorKind::Full
                        && left > FULL_RETRY_PAUSE
                        && started.elapsed() < FULL_RETRY_TIME =>
                {
                    std::thread::sleep(FULL_RETRY_PAUSE);
                }
                connected => break connected?,
            }
        };
        let call = || format!("connect to {address}");
        let theirs = Hello::parse(session.hello()).ok_or_else(|| {
            let why = "the peer's hello has an unknown format";
            Error::new(ErrorKind::Unsupported, call(), why, "run the same version at both ends")
        })?;
        let settings = &inner.settings;
        let gids = &settings.verbs.allowed_gids;
        let plans = plan(&ours, &theirs, settings.max_rails, gids, session.is_encrypted());
        let plans = plans.map_err(|why| {
            Error::new(ErrorKind::Unsupported, call(), why, fix_without_rails(&ours, &theirs))
        })?;
        let mut link = inner.link(session, ours, theirs, plans, true)?;
        let left = limit.saturating_sub(started.elapsed());
        let up = link.wait_until_up(left);
        up.map_err(|not_up| match not_up {
            NotUp::Denied(why) => Error::new(
                ErrorKind::Unsupported,
                call(),
                why,
                "enable another transport at both ends",
            ),
            NotUp::Lost(why) => {
                // If RDMA is required, its absence is the reason.
                let required = link.info.policy == Policy::Require;
                let kind = if required { ErrorKind::Unsupported } else { ErrorKind::Gone };
                Error::new(kind, call(), why, "see the peer's log")
            }
        })?;
        Ok(link)
    }

    /// The states of all open links.
    pub fn links(&self) -> Vec<LinkStatus> {
        let mut links = lock(&self.inner.links);
        links.retain(|link| link.strong_count() > 0);
        links.iter().filter_map(Weak::upgrade).map(|report| report.status()).collect()
    }

    /// The libfabric providers that links may use, the best first, or why there are none; recent, not
    /// necessarily current. `None` if libfabric is not enabled.
    pub fn providers(&self) -> Option<Result<Vec<String>, String>> {
        self.inner.providers.as_ref()?;
        let DeviceList { providers, no_ofi, .. } = self.inner.ports.cached();
        let mut names: Vec<String> = providers.into_iter().map(|provider| provider.name).collect();
        names.dedup();
        Some(if names.is_empty() { Err(no_ofi) } else { Ok(names) })
    }

    /// The sum of the counters of all lanes of a transport since this endpoint was created, including closed lanes.
    pub fn transferred(&self, transport: Transport) -> Stats {
        self.inner.lane_counters.sum(transport)
    }

    /// The same for all lanes with RDMA devices: verbs, and libfabric providers for such devices.
    pub fn transferred_by_rdma(&self) -> Stats {
        self.inner.lane_counters.rdma()
    }

    /// The reports of all open links, for metrics.
    pub fn reports(&self) -> Vec<Arc<Report>> {
        lock(&self.inner.links).iter().filter_map(Weak::upgrade).collect()
    }
}

/// What to try if no transport can be used.
fn fix_without_rails(ours: &Hello, theirs: &Hello) -> String {
    let is_missing = |transport: &&Transport| !theirs.transports.contains(transport);
    match ours.transports.iter().find(is_missing) {
        Some(transport) if ours.transports.iter().all(|ours| is_missing(&ours)) => {
            let name = transport.name();
            format!("enable {name} at the peer too, as `wirelane serve --transport {name}` does")
        }
        _ => {
            "see `wirelane devices` at both ends, or prefer RDMA instead of requiring it".to_owned()
        }
    }
}

impl Inner {
    /// Our hello, with ports and providers from `devices`.
    fn hello(&self, policy: Policy, devices: impl FnOnce() -> DeviceList) -> Hello {
        let settings = &self.settings;
        let rdma = policy != Policy::Off && settings.transports.contains(&Transport::Verbs);
        let mut list =
            if rdma || self.providers.is_some() { devices() } else { DeviceList::default() };
        if !rdma {
            (list.ports, list.refused) = (Vec::new(), "RDMA is off at this end".to_owned());
        }
        let DeviceList { ports, refused: no_rdma, providers, no_ofi, .. } = list;
        Hello {
            epoch: self.epoch,
            boot_id: self.boot_id,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            policy,
            transports: settings.transports.clone(),
            encrypt: settings.tcp.encrypt,
            max_payload: settings.link.max_payload as u32,
            max_regions: settings.link.max_regions as u32,
            ports,
            no_rdma,
            ofi: providers.iter().map(ofi::UsableProvider::of).collect(),
            no_ofi,
        }
    }

    fn link(
        self: &Arc<Self>,
        session: Session,
        ours: Hello,
        theirs: Hello,
        plans: Plans,
        is_initiator: bool,
    ) -> Result<Link, Error> {
        let policy = combine_policies(&ours, &theirs).map_err(|why| {
            let fix = "change the policy of one end";
            Error::new(ErrorKind::Unsupported, "create a link", why, fix)
        })?;
        // Ports of this end may appear later. The initiator plans with those that are in the peer's hello; the listener
        // announces them.
        let uses_verbs =
            policy != Policy::Off && self.settings.transports.contains(&Transport::Verbs);
        let can_plan_again = uses_verbs
            && match is_initiator {
                true => !theirs.ports.is_empty(),
                false => ours.ports.is_empty() && theirs.transports.contains(&Transport::Verbs),
            };
        let opener = LinkFabrics {
            inner: self.clone(),
            peer: session.peer_address(),
            theirs: theirs.clone(),
            listener_address: is_initiator.then_some(session.peer_address()),
            policy,
            encrypt: ours.encrypt || theirs.encrypt,
            session_encrypted: session.is_encrypted(),
        };
        let info = LinkInfo {
            peer: session.peer_address(),
            identity: session.identity().to_owned(),
            revocations: session.revocations(),
            encrypted: session.is_encrypted(),
            policy,
            left_out: plans.left_out,
            ours,
            theirs,
        };
        let mut core = Core::new(CoreSetup {
            config: self.settings.link.clone(),
            is_initiator,
            epochs: [self.epoch, info.theirs.epoch],
            peer_max_payload: info.theirs.max_payload as usize,
            peer_max_regions: info.theirs.max_regions as usize,
            channel: Box::new(session),
            connector: Box::new(ThreadConnector::new(Arc::new(opener))?),
            plans: plans.plans,
            can_plan_again,
            now: Duration::ZERO,
        });
        if let Some(handler) = self.settings.on_event.clone() {
            let peer = info.peer;
            core.set_event_handler(Arc::new(move |event| handler(peer, event)));
        }
        let report = Arc::new(Report::new(&core, &info));
        let mut links = lock(&self.links);
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(&report));
        drop(links);
        Link::new(core, info, report)
    }
}

/// The pause before connecting again to a listener that has too many connections.
const FULL_RETRY_PAUSE: Duration = Duration::from_millis(50);
/// How long to try again with a listener that has too many connections.
const FULL_RETRY_TIME: Duration = Duration::from_secs(5);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("epoch", &self.inner.epoch).finish_non_exhaustive()
    }
}
