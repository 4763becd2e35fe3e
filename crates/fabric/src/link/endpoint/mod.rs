//! An endpoint: what one process has to make links with.

mod devices;
mod lane_counters;
mod link_transports;
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

use self::lane_counters::Ledger;
use self::link_transports::LinkTransports;
use self::plan::{Plans, agree, plan};
use self::ports::{Ports, View};
use self::providers::Providers;
use self::settings::Settings;
use crate::error::{Error, Kind};
use crate::grants::random;
use crate::half::Fabric;
use crate::link::config::Policy;
use crate::link::core::{Core, CoreSetup};
use crate::link::lane::Link;
use crate::link::protocol::control::Class;
use crate::link::protocol::hello::{Hello, port_name};
use crate::link::rails::connector::Threads;
use crate::link::report::{Explanation, Report, Subject};
use crate::memory::Memory;
use crate::region::{Region, Rights, WeakRegion};
use crate::session::{self, Credentials, Session};
use crate::stats::Stats;
use crate::{ofi, shm, tcp, verbs};

pub use self::listener::Listener;

/// Makes links. Clones are the same endpoint.
///
/// All links of an endpoint that go by one RDMA device share its protection domain: who knows the key and the
/// address of a region that was granted to another peer, can use it too. Peers that must not trust each other
/// belong to endpoints of their own.
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    epoch: u64,
    boot: [u8; 16],
    /// Streams of TCP lanes that came to one of our listeners.
    callers: tcp::Callers,
    ports: Arc<Ports>,
    /// libfabric, if it may be used.
    providers: Option<Arc<Providers>>,
    /// Devices in use, by the names of their ports.
    domains: Mutex<HashMap<String, Arc<verbs::Domain>>>,
    /// What was registered: new devices get it too.
    regions: Mutex<Vec<WeakRegion>>,
    links: Mutex<Vec<Weak<Report>>>,
    ledger: Ledger,
}

impl Endpoint {
    /// Opens no device yet: that is done for the first peer that needs one.
    pub fn new(mut settings: Settings) -> Result<Self, Error> {
        let call = "make an endpoint";
        if settings.verbs.qp_type != verbs::QpType::Rc {
            let why = "links need reliable connections: datagrams lose messages, and cannot write or \
                       read; DC is not built";
            let fix = "set rdma_qp_type to RC; UD is for bare lanes";
            return Err(Error::new(Kind::Unsupported, call, why, fix));
        }
        let can_rdma = |class: &Class| matches!(class, Class::Verbs | Class::Ofi);
        if settings.policy == Policy::Require && !settings.classes.iter().any(can_rdma) {
            let why =
                "RDMA is required, and verbs are not among what may be used, nor is libfabric";
            return Err(Error::new(Kind::Misuse, call, why, "allow verbs, or do not require RDMA"));
        }
        if settings.classes.is_empty() {
            let why = "no transport is enabled";
            return Err(Error::new(Kind::Misuse, call, why, "allow tcp at least"));
        }
        settings.link.check().map_err(|why| {
            Error::new(Kind::Misuse, call, why, "see the documentation of the link's settings")
        })?;
        // A queue that several links share would give one the messages of another.
        settings.verbs.use_srq = false;
        let has = |class| settings.classes.contains(&class);
        let providers = has(Class::Ofi).then(|| Arc::new(Providers::new(&settings)));
        let ports = Ports {
            library: has(Class::Verbs).then(|| settings.library.clone()),
            providers: providers.clone(),
            devices: settings.devices.clone(),
            wish: settings.wish.clone(),
            seen: Mutex::default(),
        };
        Ok(Endpoint {
            inner: Arc::new(Inner {
                settings,
                ports: Arc::new(ports),
                providers,
                epoch: random()? as u64,
                boot: shm::boot_id()?,
                callers: tcp::Callers::default(),
                domains: Mutex::default(),
                regions: Mutex::default(),
                links: Mutex::default(),
                ledger: Ledger::default(),
            }),
        })
    }

    /// Registers memory for all links of this endpoint, by whatever device they go.
    pub fn register(&self, memory: &Memory, rights: Rights) -> Result<Region, Error> {
        let region = Region::shared(memory, rights);
        // One lock after the other: a device opened meanwhile finds the region in the list.
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

    /// Opens every RDMA device that may be used, and registers with it what was registered so far; says what
    /// could not be opened. Else that is done when the first peer needs it, who has to wait: for much memory it
    /// takes seconds.
    pub fn open_devices(&self) -> Vec<Error> {
        if self.inner.settings.policy == Policy::Off || !self.inner.ports.are_there() {
            return Vec::new();
        }
        let View { ports, providers, .. } = self.inner.ports.look();
        let verbs = ports.iter().filter_map(|port| self.inner.domain(&port_name(port)).err());
        // What is no device costs nothing to open later.
        let devices = providers.iter().filter(|provider| ofi::is_rdma(&provider.name));
        let open = |provider| {
            let regions = || self.inner.regions();
            self.inner.providers.as_ref()?.open(provider, regions).err()
        };
        verbs.chain(devices.filter_map(open)).collect()
    }

    /// Makes a link to the endpoint that listens at `address`; waits until it works, up to `limit`.
    pub fn connect(&self, address: SocketAddr, limit: Duration) -> Result<Link, Error> {
        self.connect_as(&self.inner.settings.credentials, address, limit)
    }

    /// As [`Endpoint::connect`], known by something else than the settings say: a ticket that is good once.
    pub fn connect_as(
        &self,
        credentials: &Credentials,
        address: SocketAddr,
        limit: Duration,
    ) -> Result<Link, Error> {
        let inner = &self.inner;
        let begun = std::time::Instant::now();
        let ours = inner
            .hello(inner.settings.policy_for(address.ip()), || inner.ports.look_within(limit / 2));
        let config = session::Config { silence: inner.settings.link.silence };
        let session = loop {
            let left = limit.saturating_sub(begun.elapsed());
            match session::dial(address, credentials, &ours.to_bytes(), &config, left) {
                // So many call at once that we were sent away for the next: our turn may come.
                Err(error)
                    if error.kind() == Kind::Full && left > RETRY && begun.elapsed() < CROWDED =>
                {
                    std::thread::sleep(RETRY);
                }
                dialled => break dialled?,
            }
        };
        let call = || format!("make a link to {address}");
        let theirs = Hello::parse(session.hello()).ok_or_else(|| {
            let why = "the peer's hello has an unknown format";
            Error::new(Kind::Unsupported, call(), why, "run the same version at both ends")
        })?;
        let settings = &inner.settings;
        let gids = &settings.verbs.allowed_gids;
        let plans = plan(&ours, &theirs, settings.max_rails, gids, session.is_encrypted());
        let plans = plans.map_err(|why| {
            let fix = "see `wirelane devices` at both ends, or prefer RDMA instead of requiring it";
            Error::new(Kind::Unsupported, call(), why, fix)
        })?;
        let mut link = inner.link(session, ours, theirs, plans, true)?;
        let left = limit.saturating_sub(begun.elapsed());
        let up = link.come_up(left);
        up.map_err(|why| {
            let fix = "see the peer's log for its side";
            // Where RDMA is required, that it does not work is an answer.
            let required = link.subject.policy == Policy::Require;
            let kind = if required { Kind::Unsupported } else { Kind::Gone };
            Error::new(kind, call(), why, fix)
        })?;
        Ok(link)
    }

    /// Every link that is alive.
    pub fn links(&self) -> Vec<Explanation> {
        let mut links = lock(&self.inner.links);
        links.retain(|link| link.strong_count() > 0);
        links.iter().filter_map(Weak::upgrade).map(|report| report.explain()).collect()
    }

    /// The providers of libfabric that links may go by, the best first, or why there are none, by what was seen
    /// lately; `None` where libfabric is not asked.
    pub fn providers(&self) -> Option<Result<Vec<String>, String>> {
        self.inner.providers.as_ref()?;
        let View { providers, no_ofi, .. } = self.inner.ports.glance();
        let mut names: Vec<String> = providers.into_iter().map(|provider| provider.name).collect();
        names.dedup();
        Some(if names.is_empty() { Err(no_ofi) } else { Ok(names) })
    }

    /// What all lanes of a kind have done since this endpoint was made, those that are gone included.
    pub fn transferred(&self, class: Class) -> Stats {
        self.inner.ledger.sum(class)
    }

    /// The same of all lanes by devices: over verbs, and by those providers of libfabric that drive some.
    pub fn transferred_by_rdma(&self) -> Stats {
        self.inner.ledger.rdma()
    }

    /// Every link's report, for those who count.
    pub fn reports(&self) -> Vec<Arc<Report>> {
        lock(&self.inner.links).iter().filter_map(Weak::upgrade).collect()
    }
}

impl Inner {
    /// Who we are and what we have, by what was seen of our ports.
    fn hello(&self, policy: Policy, see: impl FnOnce() -> View) -> Hello {
        let settings = &self.settings;
        let rdma = policy != Policy::Off && settings.classes.contains(&Class::Verbs);
        let mut view = if rdma || self.providers.is_some() { see() } else { View::default() };
        if !rdma {
            (view.ports, view.refused) = (Vec::new(), "it is off at this end".to_owned());
        }
        let View { ports, refused: no_rdma, providers, no_ofi, .. } = view;
        Hello {
            epoch: self.epoch,
            boot: self.boot,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            policy,
            classes: settings.classes.clone(),
            encrypt: settings.tcp.encrypt,
            room: settings.link.room as u32,
            regions: settings.link.regions as u32,
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
        leads: bool,
    ) -> Result<Link, Error> {
        let policy = agree(&ours, &theirs).map_err(|why| {
            let fix = "change the policy of one end";
            Error::new(Kind::Unsupported, "make a link", why, fix)
        })?;
        let transports = LinkTransports {
            inner: self.clone(),
            acceptor: leads.then_some(session.peer_address()),
            policy,
            encrypt: ours.encrypt || theirs.encrypt,
            keyed: session.is_encrypted(),
        };
        let subject = Subject {
            peer: session.peer_address(),
            identity: session.identity().to_owned(),
            withdrawals: session.withdrawals(),
            encrypted: session.is_encrypted(),
            policy,
            left_out: plans.left_out,
            ours,
            theirs,
        };
        let mut core = Core::new(CoreSetup {
            config: self.settings.link.clone(),
            leads,
            epochs: [self.epoch, subject.theirs.epoch],
            peer_message_limit: subject.theirs.room as usize,
            peer_regions: subject.theirs.regions as usize,
            connection: Box::new(session),
            connector: Box::new(Threads::new(Arc::new(transports))?),
            plans: plans.plans,
            now: Duration::ZERO,
        });
        if let Some(listener) = self.settings.on_event.clone() {
            let peer = subject.peer;
            core.set_listener(Arc::new(move |event| listener(peer, event)));
        }
        let report = Arc::new(Report::new(&core, &subject));
        let mut links = lock(&self.links);
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(&report));
        drop(links);
        Link::new(core, subject, report)
    }
}

/// How soon a listener that has too many callers is called again.
const RETRY: Duration = Duration::from_millis(50);
/// How long to go on with a peer that has no place for us.
const CROWDED: Duration = Duration::from_secs(5);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("epoch", &self.inner.epoch).finish_non_exhaustive()
    }
}
