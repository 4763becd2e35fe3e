//! The transports of a host, and the pairing of two hosts' ports.

use std::net::SocketAddr;
use std::path::PathBuf;

use fabric::verbs::{self, Choice, DeviceRequest, Domain, Pair, QpType, UsablePort};
use fabric::{Fabric, ofi, shm, tcp};

use crate::Error;
use crate::message::Bytes;
use crate::message::ListedPort;
use report::{Plan, Rail, Transport};

/// The transports of this host, as configured.
#[derive(Debug, Clone)]
pub struct Transports {
    /// libibverbs.
    pub library: PathBuf,
    /// The requested device, port, GID and MTU.
    pub device_request: DeviceRequest,
    /// Settings of verbs lanes.
    pub verbs: verbs::Config,
    /// The libfabric provider; `None`: the best.
    pub ofi_provider: Option<String>,
    /// Settings of libfabric lanes.
    pub ofi: ofi::Config,
    /// Settings of TCP lanes.
    pub tcp: tcp::Config,
}

/// An RDMA port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortId {
    /// The device.
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// The index of its GID; `None` if it uses no GID.
    pub gid_index: Option<u32>,
}

/// Two ports that reach each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortPair {
    /// Ours.
    pub local: PortId,
    /// Theirs.
    pub peer: PortId,
    /// Their description as a rail.
    pub rail: Rail,
}

/// How TCP lanes are connected.
pub(crate) enum TcpSetup {
    /// This end dials the server's listener.
    Dial(SocketAddr),
    /// Through the server's own listener.
    Accept(tcp::ConnectionRouter),
}

/// The fabrics of a measurement, one for each rail, and the rails.
pub(crate) type FabricsAndRails = (Vec<Box<dyn Fabric>>, Vec<Rail>);

impl Transports {
    /// Why RDMA cannot be used here, if it cannot.
    pub fn why_no_rdma(&self) -> Option<String> {
        match verbs::list_devices(&self.library) {
            Err(why) => Some(why.to_string()),
            Ok(listed) => {
                let (ports, refused) = verbs::candidates(&listed.devices, &self.device_request);
                ports.is_empty().then(|| refused.join("; "))
            }
        }
    }

    /// The local RDMA ports that a plan may use.
    pub(crate) fn ports(&self, plan: &Plan, device: Option<&String>) -> Result<Vec<Choice>, Error> {
        if plan.transport != Transport::Verbs {
            return Ok(Vec::new());
        }
        self.rdma_ports(device)
    }

    /// The usable RDMA ports of one device, or of all.
    pub(crate) fn rdma_ports(&self, device: Option<&String>) -> Result<Vec<Choice>, Error> {
        let off = |why: &dyn std::fmt::Display, fix: &str| {
            Error::refused(format!("RDMA cannot be used: {why} — {fix}"))
        };
        let listed = verbs::list_devices(&self.library).map_err(|why| off(&why, why.fix()))?;
        let mut request = self.device_request.clone();
        request.device = device.cloned().or(request.device);
        let (ports, refused) = verbs::candidates(&listed.devices, &request);
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
        tcp: TcpSetup,
    ) -> Result<FabricsAndRails, Error> {
        match plan.transport {
            Transport::Shm => {
                let rail = Rail { why: "same host".to_owned(), ..Rail::default() };
                Ok((vec![Box::new(shm::Shm::default())], vec![rail]))
            }
            Transport::Tcp => Ok(self.open_tcp(tcp)),
            Transport::Verbs => self.open_verbs(plan, ours, theirs),
            Transport::Ofi => self.open_ofi(),
        }
    }

    fn open_tcp(&self, tcp: TcpSetup) -> FabricsAndRails {
        let config = self.tcp.clone();
        let (config, peer) = match tcp {
            TcpSetup::Dial(address) => {
                (tcp::Config { listener_address: Some(address), ..config }, address.to_string())
            }
            TcpSetup::Accept(router) => {
                (tcp::Config { router: Some(router), ..config }, String::new())
            }
        };
        let local = KERNEL.to_owned();
        let rail = Rail { local, peer, why: "by the kernel".to_owned(), ..Rail::default() };
        (vec![Box::new(tcp::Tcp::new(config))], vec![rail])
    }

    /// Each end chooses its provider; different ones refuse each other when they connect.
    fn open_ofi(&self) -> Result<FabricsAndRails, Error> {
        let off = |why: &dyn std::fmt::Display, fix: &str| {
            Error::refused(format!("libfabric cannot be used: {why} — {fix}"))
        };
        let listed = ofi::list_providers(self.ofi.library.as_deref());
        let listed = listed.map_err(|why| off(&why, why.fix()))?;
        let choice = ofi::choose(&listed, self.ofi_provider.as_deref())
            .map_err(|why| off(&why, "see `fi_info -t FI_EP_RDM`"))?;
        let domain = ofi::Domain::open(&choice, self.ofi.clone())?;
        let local = format!("{} {}", domain.provider(), domain.interface());
        let rail = Rail { local, why: choice.why, ..Rail::default() };
        Ok((vec![Box::new(domain)], vec![rail]))
    }

    fn open_verbs(
        &self,
        plan: &Plan,
        ours: &[Choice],
        theirs: &[UsablePort],
    ) -> Result<FabricsAndRails, Error> {
        let mine: Vec<UsablePort> = ours.iter().map(UsablePort::of).collect();
        let (pairs, left) = verbs::pair(&mine, theirs, plan.rails as usize);
        if pairs.is_empty() {
            return Err(Error::refused(format!(
                "no local RDMA port reaches one of the peer: {} — see `wirelane doctor --peer`",
                left.join("; ")
            )));
        }
        let mut config = self.verbs.clone();
        config.qp_type = if plan.datagrams { QpType::Ud } else { QpType::Rc };
        config.max_send_wr = plan.depth.max(MIN_QUEUE_DEPTH);
        config.max_recv_wr = (2 * plan.depth).max(MIN_QUEUE_DEPTH);
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
pub(crate) fn pairs(ours: &[Choice], theirs: &[ListedPort]) -> Result<Vec<PortPair>, Error> {
    let mine: Vec<UsablePort> = ours.iter().map(UsablePort::of).collect();
    let ports: Vec<Bytes> = theirs.iter().map(|port| port.port.clone()).collect();
    let ports = from_bytes(&ports)?;
    let (pairs, _) = verbs::pair(&mine, &ports, MAX_PORTS);
    let pair = |pair: &Pair| {
        let (local, peer) = (&ours[pair.ours], &ports[pair.theirs]);
        PortPair {
            local: PortId {
                device: local.device.clone(),
                port: local.port,
                gid_index: gid_index(local),
            },
            peer: PortId {
                device: peer.device.clone(),
                port: peer.port,
                gid_index: theirs[pair.theirs].gid_index,
            },
            rail: rail(pair, ours, &ports),
        }
    };
    Ok(pairs.iter().map(pair).collect())
}

/// Our ports, for the list that a client requests.
pub(crate) fn listed(ports: &[Choice]) -> Vec<ListedPort> {
    let listed = |port: &Choice| ListedPort {
        port: Bytes(UsablePort::of(port).to_bytes()),
        gid_index: gid_index(port),
    };
    ports.iter().map(listed).collect()
}

fn gid_index(port: &Choice) -> Option<u32> {
    port.gid.as_ref().map(|entry| entry.index)
}

fn rail(pair: &Pair, ours: &[Choice], theirs: &[UsablePort]) -> Rail {
    let (local, peer) = (&ours[pair.ours], &theirs[pair.theirs]);
    Rail {
        local: format!("{} port {}", local.device, local.port),
        peer: format!("{} port {}", peer.device, peer.port),
        gid: local.gid.as_ref().map(|entry| entry.gid.to_string()),
        mtu: Some(pair.mtu),
        rate_mbps: Some(pair.weight).filter(|mbps| *mbps > 1),
        why: format!("{}; {}", local.why, pair.why),
    }
}

/// Encodes our ports.
pub(crate) fn to_bytes(ports: &[Choice]) -> Vec<Bytes> {
    ports.iter().map(|port| Bytes(UsablePort::of(port).to_bytes())).collect()
}

/// Decodes the other end's ports.
pub(crate) fn from_bytes(ports: &[Bytes]) -> Result<Vec<UsablePort>, Error> {
    if ports.len() > MAX_PORTS {
        return Err(Error::gone(format!("the other end sent more than {MAX_PORTS} ports")));
    }
    Ok(ports.iter().map(|port| UsablePort::from_bytes(&port.0)).collect::<Result<_, _>>()?)
}

/// The name of the client's end of a TCP rail; its counters are read by this name.
pub const KERNEL: &str = "kernel";
const MIN_QUEUE_DEPTH: u32 = 16;
const MAX_PORTS: usize = 256;
