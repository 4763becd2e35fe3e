//! How a host can be reached: which fabrics there are, and which ports of two hosts belong together.

use std::net::SocketAddr;
use std::path::PathBuf;

use fabric::verbs::{self, Choice, DeviceRequest, Domain, Pair, QpType, UsablePort};
use fabric::{Fabric, ofi, shm, tcp};

use crate::Error;
use crate::message::Bytes;
use crate::message::ShownPort;
use report::{Plan, Rail, Transport};

/// What this host has, as the user set it.
#[derive(Debug, Clone)]
pub struct Transports {
    /// libibverbs.
    pub library: PathBuf,
    /// Which device, port, GID and MTU.
    pub wish: DeviceRequest,
    /// How queue pairs are made.
    pub verbs: verbs::Config,
    /// Which provider of libfabric; none: the best.
    pub ofi_provider: Option<String>,
    /// How lanes over libfabric are made.
    pub ofi: ofi::Config,
    /// How TCP lanes are made.
    pub tcp: tcp::Config,
}

/// A port of either end, as other programs name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortAt {
    /// The device.
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// The index of its GID; none where it goes without.
    pub gid_index: Option<u32>,
}

/// Two ports that reach each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortPair {
    /// Ours.
    pub here: PortAt,
    /// Theirs.
    pub there: PortAt,
    /// As rails are printed.
    pub rail: Rail,
}

/// From which end TCP connections come.
pub(crate) enum Tcp {
    /// This end dials the listener there.
    To(SocketAddr),
    /// They come by our listener.
    From(tcp::ConnectionRouter),
}

/// The fabrics of a measurement, one for each rail, and what the rails are.
pub(crate) type Opened = (Vec<Box<dyn Fabric>>, Vec<Rail>);

impl Transports {
    /// Why RDMA cannot be used here, if it cannot.
    pub fn why_no_rdma(&self) -> Option<String> {
        match verbs::survey(&self.library) {
            Err(why) => Some(why.to_string()),
            Ok(survey) => {
                let (ports, refused) = verbs::candidates(&survey.devices, &self.wish);
                ports.is_empty().then(|| refused.join("; "))
            }
        }
    }

    /// The RDMA ports that a plan may use here.
    pub(crate) fn ports(&self, plan: &Plan, device: Option<&String>) -> Result<Vec<Choice>, Error> {
        if plan.transport != Transport::Verbs {
            return Ok(Vec::new());
        }
        self.rdma_ports(device)
    }

    /// All of one device, or of all.
    pub(crate) fn rdma_ports(&self, device: Option<&String>) -> Result<Vec<Choice>, Error> {
        let off = |why: &dyn std::fmt::Display, fix: &str| {
            Error::refused(format!("RDMA cannot be used: {why} — {fix}"))
        };
        let survey = verbs::survey(&self.library).map_err(|why| off(&why, why.fix()))?;
        let mut wish = self.wish.clone();
        wish.device = device.cloned().or(wish.device);
        let (ports, refused) = verbs::candidates(&survey.devices, &wish);
        if ports.is_empty() {
            return Err(off(&refused.join("; "), "see `wirelane doctor`"));
        }
        Ok(ports)
    }

    /// Opens a fabric for each rail.
    pub(crate) fn open(
        &self,
        plan: &Plan,
        ours: &[Choice],
        theirs: &[UsablePort],
        tcp: Tcp,
    ) -> Result<Opened, Error> {
        match plan.transport {
            Transport::Shm => {
                let rail = Rail { why: "within this host".to_owned(), ..Rail::default() };
                Ok((vec![Box::new(shm::Shm::default())], vec![rail]))
            }
            Transport::Tcp => Ok(self.open_tcp(tcp)),
            Transport::Verbs => self.open_verbs(plan, ours, theirs),
            Transport::Ofi => self.open_ofi(),
        }
    }

    fn open_tcp(&self, tcp: Tcp) -> Opened {
        let config = self.tcp.clone();
        let (config, there) = match tcp {
            Tcp::To(acceptor) => {
                (tcp::Config { listener_address: Some(acceptor), ..config }, acceptor.to_string())
            }
            Tcp::From(callers) => (tcp::Config { router: Some(callers), ..config }, String::new()),
        };
        let here = KERNEL.to_owned();
        let rail = Rail { here, there, why: "by the kernel".to_owned(), ..Rail::default() };
        (vec![Box::new(tcp::Tcp::new(config))], vec![rail])
    }

    /// Each end by its own choice; two that are not alike refuse each other.
    fn open_ofi(&self) -> Result<Opened, Error> {
        let off = |why: &dyn std::fmt::Display, fix: &str| {
            Error::refused(format!("libfabric cannot be used: {why} — {fix}"))
        };
        let survey = ofi::survey(self.ofi.library.as_deref());
        let survey = survey.map_err(|why| off(&why, why.fix()))?;
        let choice = ofi::choose(&survey, self.ofi_provider.as_deref())
            .map_err(|why| off(&why, "see what `fi_info -t FI_EP_RDM` lists"))?;
        let domain = ofi::Domain::open(&choice, self.ofi.clone())?;
        let here = format!("{} {}", domain.provider(), domain.interface());
        let rail = Rail { here, why: choice.why, ..Rail::default() };
        Ok((vec![Box::new(domain)], vec![rail]))
    }

    fn open_verbs(
        &self,
        plan: &Plan,
        ours: &[Choice],
        theirs: &[UsablePort],
    ) -> Result<Opened, Error> {
        let mine: Vec<UsablePort> = ours.iter().map(UsablePort::of).collect();
        let (pairs, left) = verbs::pair(&mine, theirs, plan.rails as usize);
        if pairs.is_empty() {
            return Err(Error::refused(format!(
                "no RDMA port here and none there reach each other: {} — see `wirelane doctor --peer`",
                left.join("; ")
            )));
        }
        let mut config = self.verbs.clone();
        config.qp_type = if plan.datagrams { QpType::Ud } else { QpType::Rc };
        config.max_send_wr = plan.depth.max(SMALLEST_QUEUE);
        config.max_recv_wr = (2 * plan.depth).max(SMALLEST_QUEUE);
        let open = |pair: &Pair| {
            let choice = Choice { mtu: pair.mtu, ..ours[pair.ours].clone() };
            Ok(Box::new(Domain::open_with(&self.library, &choice, config.clone())?)
                as Box<dyn Fabric>)
        };
        let fabrics = pairs.iter().map(open).collect::<Result<_, Error>>()?;
        let rails = pairs.iter().map(|pair| rail(pair, ours, theirs)).collect();
        Ok((fabrics, rails))
    }
}

/// Every pair of ports that reach each other, each port once.
pub(crate) fn pairs(ours: &[Choice], theirs: &[ShownPort]) -> Result<Vec<PortPair>, Error> {
    let mine: Vec<UsablePort> = ours.iter().map(UsablePort::of).collect();
    let ways: Vec<Bytes> = theirs.iter().map(|port| port.way.clone()).collect();
    let ways = from_bytes(&ways)?;
    let (pairs, _) = verbs::pair(&mine, &ways, MAX_PORTS);
    let pair = |pair: &Pair| {
        let (here, there) = (&ours[pair.ours], &ways[pair.theirs]);
        PortPair {
            here: PortAt {
                device: here.device.clone(),
                port: here.port,
                gid_index: gid_index(here),
            },
            there: PortAt {
                device: there.device.clone(),
                port: there.port,
                gid_index: theirs[pair.theirs].gid_index,
            },
            rail: rail(pair, ours, &ways),
        }
    };
    Ok(pairs.iter().map(pair).collect())
}

/// Our ports, to be shown.
pub(crate) fn shown(ports: &[Choice]) -> Vec<ShownPort> {
    let shown = |port: &Choice| ShownPort {
        way: Bytes(UsablePort::of(port).to_bytes()),
        gid_index: gid_index(port),
    };
    ports.iter().map(shown).collect()
}

fn gid_index(port: &Choice) -> Option<u32> {
    port.gid.as_ref().map(|entry| entry.index)
}

fn rail(pair: &Pair, ours: &[Choice], theirs: &[UsablePort]) -> Rail {
    let (here, there) = (&ours[pair.ours], &theirs[pair.theirs]);
    Rail {
        here: format!("{} port {}", here.device, here.port),
        there: format!("{} port {}", there.device, there.port),
        gid: here.gid.as_ref().map(|entry| entry.gid.to_string()),
        mtu: Some(pair.mtu),
        rate_mbps: Some(pair.weight).filter(|mbps| *mbps > 1),
        why: format!("{}; {}", here.why, pair.why),
    }
}

/// Ports for the other end to read.
pub(crate) fn to_bytes(ports: &[Choice]) -> Vec<Bytes> {
    ports.iter().map(|port| Bytes(UsablePort::of(port).to_bytes())).collect()
}

/// Ports of the other end.
pub(crate) fn from_bytes(ways: &[Bytes]) -> Result<Vec<UsablePort>, Error> {
    if ways.len() > MAX_PORTS {
        return Err(Error::gone("the other end says that it has more ports than any host"));
    }
    Ok(ways.iter().map(|way| UsablePort::from_bytes(&way.0)).collect::<Result<_, _>>()?)
}

/// The name of the path through the kernel at the end that measures; counters are asked for by it.
pub const KERNEL: &str = "kernel";
const SMALLEST_QUEUE: u32 = 16;
const MAX_PORTS: usize = 256;
