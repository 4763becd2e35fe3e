//! The transports that one link may use, and the devices behind them.

use std::net::SocketAddr;
use std::sync::Arc;

use super::Inner;
use super::providers::Demands;
use crate::error::{Error, Kind};
use crate::half::Fabric;
use crate::lane::Lane;
use crate::link::config::Policy;
use crate::link::protocol::control::Class;
use crate::link::rails::connector::Transports;
use crate::{shm, tcp};

/// The transports of one link.
pub(super) struct LinkTransports {
    pub(super) inner: Arc<Inner>,
    /// Where the peer listens, if we dialled.
    pub(super) acceptor: Option<SocketAddr>,
    pub(super) policy: Policy,
    pub(super) encrypt: bool,
    /// Whether there are keys to encrypt with.
    pub(super) keyed: bool,
}

impl Transports for LinkTransports {
    fn made(&self, lane: &dyn Lane) {
        self.inner.ledger.enter(lane);
    }

    fn tidy(&self, class: Class, path: &str) {
        match (class, &self.inner.providers) {
            (Class::Verbs, _) => self.inner.tidy(path),
            (Class::Ofi, Some(providers)) => providers.forget(path),
            _ => {}
        }
    }

    fn open(&self, class: Class, path: &str) -> Result<Arc<dyn Fabric>, Error> {
        let settings = &self.inner.settings;
        let unwanted = match (class, self.policy) {
            (Class::Tcp, _) if self.encrypt && !self.keyed => true,
            (Class::Verbs, Policy::Off) => true,
            (Class::Shm | Class::Tcp, Policy::Require) => true,
            _ => !settings.classes.contains(&class),
        };
        if unwanted {
            let call = format!("use {path}");
            let fix = "ask for what both ends allow";
            return Err(Error::new(Kind::Denied, call, "it is not allowed at this end", fix));
        }
        Ok(match class {
            Class::Shm => Arc::new(shm::Shm::new(settings.shm.clone())),
            Class::Verbs => self.inner.domain(path)?,
            Class::Ofi => {
                let by_gid = !settings.verbs.allowed_gids.is_empty();
                let demands = Demands { policy: self.policy, encrypt: self.encrypt, by_gid };
                self.inner.provider(path, demands)?
            }
            Class::Tcp => {
                let callers = self.acceptor.is_none().then(|| self.inner.callers.clone());
                let (acceptor, encrypt) = (self.acceptor, self.encrypt);
                Arc::new(tcp::Tcp::new(tcp::Config {
                    callers,
                    acceptor,
                    encrypt,
                    ..settings.tcp.clone()
                }))
            }
        })
    }
}
