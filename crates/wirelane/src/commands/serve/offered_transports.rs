//! Which transports this server offers, and why.

use std::sync::{Arc, Mutex, PoisonError};

use fabric::link::{EndpointSettings, Policy, Transport};
use kv_proto::v1;
use serde::Serialize;

use crate::links::libfabric::NOT_REQUESTED;
use crate::links::rdma::Rdma;

/// What the settings allow, and the last known state of the machine. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct OfferedTransports {
    transports: Vec<Transport>,
    policy: Policy,
    rdma: Arc<Mutex<Option<Arc<Rdma>>>>,
    providers: Arc<Mutex<Option<Providers>>>,
}

/// The providers of libfabric, or why there are none.
type Providers = Result<Vec<String>, String>;

/// One transport.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct OfferedTransport {
    name: &'static str,
    offered: bool,
    why: String,
}

impl OfferedTransports {
    pub(super) fn of(links: &EndpointSettings) -> Self {
        OfferedTransports {
            transports: links.transports.clone(),
            policy: links.policy,
            rdma: Arc::default(),
            providers: Arc::default(),
        }
    }

    /// Sets the answer of libfabric; `None` if it may not be used.
    pub(super) fn set_providers(&self, providers: Option<Providers>) {
        *self.providers.lock().unwrap_or_else(PoisonError::into_inner) = providers;
    }

    /// Sets the state of the RDMA devices.
    pub(super) fn set_rdma(&self, rdma: &Arc<Rdma>) {
        *self.rdma.lock().unwrap_or_else(PoisonError::into_inner) = Some(rdma.clone());
    }

    /// The last known state of the RDMA devices.
    pub(super) fn rdma(&self) -> Option<Arc<Rdma>> {
        self.rdma.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every transport, by the last known state.
    pub(super) fn list(&self) -> Vec<OfferedTransport> {
        let rdma = self.rdma();
        Transport::ALL.map(|transport| self.offered_transport(transport, rdma.as_deref())).to_vec()
    }

    fn offered_transport(&self, transport: Transport, rdma: Option<&Rdma>) -> OfferedTransport {
        let offered_transport = |offered, why: &str| OfferedTransport {
            name: transport.name(),
            offered,
            why: why.to_owned(),
        };
        if let Some(why) = self.left_out(transport) {
            return offered_transport(false, why);
        }
        match (transport, rdma) {
            (Transport::Shm, _) => offered_transport(true, "for clients on this host"),
            (Transport::Tcp, _) => offered_transport(true, "for all other clients"),
            (Transport::Verbs, Some(rdma)) => {
                offered_transport(rdma.off.is_none(), &rdma.sentence())
            }
            (Transport::Verbs, None) => {
                offered_transport(false, "the devices have not answered yet")
            }
            (Transport::Ofi, _) => {
                let providers = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
                match &*providers {
                    Some(Ok(names)) => offered_transport(true, &format!("by {}", names.join(", "))),
                    Some(Err(why)) => offered_transport(false, why),
                    None => offered_transport(false, "libfabric has not answered yet"),
                }
            }
        }
    }

    /// Why a transport is not offered, independent of the machine.
    fn left_out(&self, transport: Transport) -> Option<&'static str> {
        match (transport, self.policy) {
            (Transport::Shm | Transport::Tcp, Policy::Require) => {
                Some("RDMA is required (rdma_policy)")
            }
            (Transport::Verbs, Policy::Off) => Some("RDMA is off, by settings or --transport"),
            (Transport::Ofi, _) if !self.transports.contains(&transport) => Some(NOT_REQUESTED),
            _ if !self.transports.contains(&transport) => Some("excluded by --transport"),
            _ => None,
        }
    }

    /// The state of libfabric, once it has answered; `None` if it is not to be used.
    pub(super) fn libfabric(&self) -> Option<String> {
        let offered_transport = self
            .transports
            .contains(&Transport::Ofi)
            .then(|| self.offered_transport(Transport::Ofi, None))?;
        Some(if offered_transport.offered {
            offered_transport.why
        } else {
            format!("off: {}", offered_transport.why)
        })
    }

    /// A line for the banner, when devices may not have answered yet.
    pub(super) fn line(&self) -> String {
        let text = |transport: Transport| {
            let name = transport.name();
            match (self.left_out(transport), transport) {
                (Some(why), _) => format!("no {name}: {why}"),
                (None, Transport::Verbs) => "verbs if RDMA is on".to_owned(),
                (None, Transport::Ofi) => "ofi if libfabric is available".to_owned(),
                (None, _) => format!("{name} {}", self.offered_transport(transport, None).why),
            }
        };
        // libfabric is mentioned only if it is requested.
        let is_listed = |transport: &Transport| {
            *transport != Transport::Ofi || self.transports.contains(transport)
        };
        Transport::ALL.into_iter().filter(is_listed).map(text).collect::<Vec<_>>().join("; ")
    }
}

impl From<OfferedTransport> for v1::Transport {
    fn from(offered_transport: OfferedTransport) -> Self {
        v1::Transport {
            name: offered_transport.name.to_owned(),
            offered: offered_transport.offered,
            reason: offered_transport.why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_has_its_reason() {
        let offered_transports = |transports: &[Transport], policy| {
            OfferedTransports::of(&EndpointSettings {
                transports: transports.to_vec(),
                policy,
                ..EndpointSettings::default()
            })
        };
        let all = offered_transports(&Transport::DEFAULT, Policy::Prefer);
        assert!(all.line().contains("shm for clients on this host; verbs if RDMA is on; tcp for"));
        let rdma = Arc::new(Rdma { devices: Vec::new(), off: None });
        let offered = |offered_transports: &OfferedTransports| -> Vec<bool> {
            offered_transports
                .list()
                .into_iter()
                .map(|offered_transport| offered_transport.offered)
                .collect()
        };
        assert_eq!(offered(&all), [true, false, false, true]);
        all.set_rdma(&rdma);
        assert_eq!(offered(&all), [true, true, false, true]);
        let tcp = offered_transports(&[Transport::Tcp], Policy::Off);
        tcp.set_rdma(&rdma);
        assert_eq!(offered(&tcp), [false, false, false, true]);
        let required = offered_transports(&Transport::DEFAULT, Policy::Require);
        required.set_rdma(&rdma);
        assert_eq!(offered(&required), [false, true, false, false]);
        assert!(required.line().contains("no tcp: RDMA is required"), "{}", required.line());
        let ofi = offered_transports(&[Transport::Ofi], Policy::Prefer);
        assert!(ofi.line().contains("ofi if libfabric is available"), "{}", ofi.line());
        ofi.set_providers(Some(Err("it is not installed".to_owned())));
        assert_eq!((ofi.list()[2].offered, &*ofi.list()[2].why), (false, "it is not installed"));
        assert_eq!(ofi.libfabric().as_deref(), Some("off: it is not installed"));
        ofi.set_providers(Some(Ok(vec!["efa".to_owned(), "tcp".to_owned()])));
        assert_eq!((ofi.list()[2].offered, &*ofi.list()[2].why), (true, "by efa, tcp"));
        assert_eq!(ofi.libfabric().as_deref(), Some("by efa, tcp"));
        assert_eq!(all.libfabric(), None, "not requested");
    }
}
