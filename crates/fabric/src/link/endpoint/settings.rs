//! The settings of an endpoint.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use crate::link::config::{Config, PeerPolicy, Policy};
use crate::link::event::Event;
use crate::link::protocol::control::Transport;
use crate::session::{Credentials, Keyring};
use crate::{ofi, shm, tcp, verbs};

/// Transports, authentication and link configuration of an endpoint.
#[derive(Clone)]
pub struct EndpointSettings {
    /// The configuration of links.
    pub link: Config,
    /// Whether RDMA may, should or must be used.
    pub policy: Policy,
    /// Policies for peers by address; the first match applies.
    pub peer_policies: Vec<PeerPolicy>,
    /// The enabled transports. Without [`Transport::Ofi`] libfabric is not loaded.
    pub transports: Vec<Transport>,
    /// The file of libibverbs.
    pub library: PathBuf,
    /// Names of the enabled RDMA devices; empty: all.
    pub devices: Vec<String>,
    /// The requested device, port, GID and MTU.
    pub device_request: verbs::DeviceRequest,
    /// The maximum number of rails of a link.
    pub max_rails: usize,
    /// The configuration of queue pairs.
    pub verbs: verbs::Config,
    /// The libfabric provider; `None`: providers for RDMA devices, and software only if
    /// [`Transport::Ofi`] alone is enabled.
    pub ofi_provider: Option<String>,
    /// The configuration of libfabric lanes. By default their timeouts are those of links.
    pub ofi: ofi::Config,
    /// The configuration of TCP lanes.
    pub tcp: tcp::Config,
    /// The configuration of shared-memory lanes.
    pub shm: shm::Config,
    /// The keys and tickets that initiators are authenticated with.
    pub keyring: Keyring,
    /// Whether initiators must have a key or a ticket.
    pub require_authentication: bool,
    /// The credentials for outgoing links.
    pub credentials: Credentials,
    /// The maximum number of incoming links per listener.
    pub max_peers: usize,
    /// Called with the events of all links, on the threads that poll them: it must be quick.
    pub on_event: Option<EventHandler>,
}

/// A function called with a peer's address and an event of its link.
pub type EventHandler = Arc<dyn Fn(SocketAddr, &Event) + Send + Sync>;

impl EndpointSettings {
    pub(in crate::link) fn policy_for(&self, peer: IpAddr) -> Policy {
        let special = self.peer_policies.iter().find(|special| special.matches(peer));
        special.map_or(self.policy, |special| special.policy)
    }
}

impl Default for EndpointSettings {
    fn default() -> Self {
        EndpointSettings {
            link: Config::default(),
            policy: Policy::default(),
            peer_policies: Vec::new(),
            transports: Transport::DEFAULT.to_vec(),
            library: PathBuf::from(verbs::LIBRARY),
            devices: Vec::new(),
            device_request: verbs::DeviceRequest {
                device: None,
                port: None,
                gid_index: None,
                mtu: 4096,
            },
            max_rails: 4,
            verbs: verbs::Config::default(),
            ofi_provider: None,
            ofi: ofi::Config {
                timeout: Config::default().peer_timeout,
                receive_timeout: Config::default().peer_timeout,
                ..ofi::Config::default()
            },
            tcp: tcp::Config::default(),
            shm: shm::Config::default(),
            keyring: Keyring::new(),
            require_authentication: false,
            credentials: Credentials::None,
            max_peers: 1024,
            on_event: None,
        }
    }
}
