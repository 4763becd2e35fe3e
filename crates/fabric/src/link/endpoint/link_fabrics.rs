//! The fabrics of one link: which it may open, and the devices behind them.

use std::net::SocketAddr;
use std::sync::Arc;

use super::Inner;
use super::plan::{Plans, plan};
use super::ports::DEVICE_QUERY_TIMEOUT;
use super::providers::Requirements;
use super::settings::EndpointSettings;
use crate::error::{Error, ErrorKind};
use crate::lane::Lane;
use crate::link::config::Policy;
use crate::link::protocol::control::Transport;
use crate::link::protocol::hello::Hello;
use crate::link::rails::connector::{FabricOpener, NewPlan};
use crate::setup::Fabric;
use crate::{shm, tcp};

/// Opens the fabrics of one link.
pub(super) struct LinkFabrics {
    pub(super) inner: Arc<Inner>,
    /// The address the peer listens on, if this end is the initiator.
    pub(super) listener_address: Option<SocketAddr>,
    pub(super) policy: Policy,
    pub(super) encrypt: bool,
    /// Whether the control connection is encrypted: only then lane secrets can key an encrypted lane.
    pub(super) session_encrypted: bool,
    pub(super) peer: SocketAddr,
    pub(super) theirs: Hello,
}

impl FabricOpener for LinkFabrics {
    fn lane_created(&self, lane: &dyn Lane) {
        self.inner.lane_counters.add(lane);
    }

    fn plan_again(&self, announced: Option<Hello>) -> Option<NewPlan> {
        let inner = &self.inner;
        // One query serves all links that plan at the same time.
        let devices = || inner.ports.query_within(DEVICE_QUERY_TIMEOUT);
        let ours = inner.hello(inner.settings.policy_for(self.peer.ip()), devices);
        if self.listener_address.is_none() {
            return Some(NewPlan { ours, theirs: None, plans: Vec::new(), left_out: Vec::new() });
        }
        let theirs = announced.as_ref().unwrap_or(&self.theirs);
        let EndpointSettings { max_rails, verbs, .. } = &inner.settings;
        let planned = plan(&ours, theirs, *max_rails, &verbs.allowed_gids, self.session_encrypted);
        let Plans { plans, left_out } = planned.ok()?;
        Some(NewPlan { ours, theirs: announced, plans, left_out })
    }

    fn release_broken(&self, transport: Transport, port_name: &str) {
        match (transport, &self.inner.providers) {
            (Transport::Verbs, _) => self.inner.release_broken(port_name),
            (Transport::Ofi, Some(providers)) => providers.close_unused(port_name),
            _ => {}
        }
    }

    fn open(&self, transport: Transport, port_name: &str) -> Result<Arc<dyn Fabric>, Error> {
        let settings = &self.inner.settings;
        let unwanted = match (transport, self.policy) {
            (Transport::Tcp, _) if self.encrypt && !self.session_encrypted => true,
            (Transport::Verbs, Policy::Off) => true,
            (Transport::Shm | Transport::Tcp, Policy::Require) => true,
            _ => !settings.transports.contains(&transport),
        };
        if unwanted {
            let call = format!("use {port_name}");
            let fix = "use a transport that both ends allow";
            return Err(Error::new(ErrorKind::Denied, call, "it is not allowed at this end", fix));
        }
        Ok(match transport {
            Transport::Shm => Arc::new(shm::Shm::new(settings.shm.clone())),
            Transport::Verbs => self.inner.domain(port_name)?,
            Transport::Ofi => {
                let restricts_gids = !settings.verbs.allowed_gids.is_empty();
                let requirements =
                    Requirements { policy: self.policy, encrypt: self.encrypt, restricts_gids };
                self.inner.provider(port_name, requirements)?
            }
            Transport::Tcp => {
                let connection_router =
                    self.listener_address.is_none().then(|| self.inner.connection_router.clone());
                let (listener_address, encrypt) = (self.listener_address, self.encrypt);
                Arc::new(tcp::Tcp::new(tcp::Config {
                    router: connection_router,
                    listener_address,
                    encrypt,
                    ..settings.tcp.clone()
                }))
            }
        })
    }
}
