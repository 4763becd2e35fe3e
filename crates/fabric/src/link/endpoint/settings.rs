//! The settings of an endpoint.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use crate::link::config::{Config, PeerPolicy, Policy};
use crate::link::event::Event;
use crate::link::protocol::control::Class;
use crate::session::{Credentials, Keyring};
use crate::{ofi, shm, tcp, verbs};

/// What an endpoint may use, whom it knows, and how its links behave.
#[derive(Clone)]
pub struct Settings {
    /// How links behave.
    pub link: Config,
    /// Whether RDMA may, should or must be used.
    pub policy: Policy,
    /// The same for peers with these addresses; the first that fits counts.
    pub peer_policies: Vec<PeerPolicy>,
    /// Which transports may be used at all. Where [`Class::Ofi`] is not among them libfabric is not loaded.
    pub classes: Vec<Class>,
    /// The file of libibverbs.
    pub library: PathBuf,
    /// Names of the RDMA devices that may be used; none: all.
    pub devices: Vec<String>,
    /// Which device, port, GID and MTU to use.
    pub wish: verbs::DeviceRequest,
    /// How many RDMA devices one link uses at most.
    pub max_rails: usize,
    /// How queue pairs are made.
    pub verbs: verbs::Config,
    /// Which provider of libfabric; none: those that drive RDMA devices, and software only if nothing but
    /// [`Class::Ofi`] may be used.
    pub ofi_provider: Option<String>,
    /// How lanes over libfabric are made. Their peer may be busy elsewhere for as long as a link's may.
    pub ofi: ofi::Config,
    /// How TCP lanes are made.
    pub tcp: tcp::Config,
    /// How shared-memory lanes are made.
    pub shm: shm::Config,
    /// Who may call.
    pub keyring: Keyring,
    /// Whether callers must show a key or a ticket.
    pub require_authentication: bool,
    /// As whom we call.
    pub credentials: Credentials,
    /// How many peers may have called at once.
    pub max_peers: usize,
    /// Called with everything that happens to links, on the threads that own them: it must not take long.
    pub on_event: Option<Listening>,
}

/// Called with an event at a link to this address.
pub type Listening = Arc<dyn Fn(SocketAddr, &Event) + Send + Sync>;

impl Settings {
    pub(in crate::link) fn policy_for(&self, peer: IpAddr) -> Policy {
        let special = self.peer_policies.iter().find(|special| special.fits(peer));
        special.map_or(self.policy, |special| special.policy)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            link: Config::default(),
            policy: Policy::default(),
            peer_policies: Vec::new(),
            classes: Class::USUAL.to_vec(),
            library: PathBuf::from(verbs::LIBRARY),
            devices: Vec::new(),
            wish: verbs::DeviceRequest { device: None, port: None, gid_index: None, mtu: 4096 },
            max_rails: 4,
            verbs: verbs::Config::default(),
            ofi_provider: None,
            ofi: ofi::Config {
                timeout: Config::default().silence,
                patience: Config::default().silence,
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
