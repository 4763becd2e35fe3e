//! Which kinds of links this server offers, and why each is or is not there.

use std::sync::{Arc, Mutex, PoisonError};

use fabric::link::{Class, Policy, Settings};
use kv_proto::v1::Transport;
use serde::Serialize;

use crate::links::libfabric::UNASKED;
use crate::links::rdma::Rdma;

/// What the settings allow, and what was last seen of the machine. Clones see the same.
#[derive(Debug, Clone)]
pub(super) struct Offers {
    classes: Vec<Class>,
    policy: Policy,
    seen: Arc<Mutex<Option<Arc<Rdma>>>>,
    providers: Arc<Mutex<Option<Providers>>>,
}

/// The providers of libfabric, or why there are none.
type Providers = Result<Vec<String>, String>;

/// One kind of way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Offer {
    name: &'static str,
    offered: bool,
    why: String,
}

impl Offers {
    pub(super) fn of(links: &Settings) -> Self {
        Offers {
            classes: links.classes.clone(),
            policy: links.policy,
            seen: Arc::default(),
            providers: Arc::default(),
        }
    }

    /// libfabric was asked, if it may be used.
    pub(super) fn note_providers(&self, providers: Option<Providers>) {
        *self.providers.lock().unwrap_or_else(PoisonError::into_inner) = providers;
    }

    /// The machine was looked at.
    pub(super) fn note(&self, rdma: &Arc<Rdma>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(rdma.clone());
    }

    /// What was last seen of it.
    pub(super) fn seen(&self) -> Option<Arc<Rdma>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every kind, by what was last seen.
    pub(super) fn list(&self) -> Vec<Offer> {
        let seen = self.seen();
        Class::ALL.map(|class| self.one(class, seen.as_deref())).to_vec()
    }

    fn one(&self, class: Class, seen: Option<&Rdma>) -> Offer {
        let offer = |offered, why: &str| Offer { name: class.name(), offered, why: why.to_owned() };
        if let Some(why) = self.left_out(class) {
            return offer(false, why);
        }
        match (class, seen) {
            (Class::Shm, _) => offer(true, "for clients on this host"),
            (Class::Tcp, _) => offer(true, "for clients that have nothing better"),
            (Class::Verbs, Some(rdma)) => offer(rdma.off.is_none(), &rdma.sentence()),
            (Class::Verbs, None) => offer(false, "the devices have not answered yet"),
            (Class::Ofi, _) => {
                let providers = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
                match &*providers {
                    Some(Ok(names)) => offer(true, &format!("by {}", names.join(", "))),
                    Some(Err(why)) => offer(false, why),
                    None => offer(false, "libfabric has not answered yet"),
                }
            }
        }
    }

    /// Why a kind is not offered whatever the machine has.
    fn left_out(&self, class: Class) -> Option<&'static str> {
        match (class, self.policy) {
            (Class::Shm | Class::Tcp, Policy::Require) => Some("RDMA is required (rdma_policy)"),
            (Class::Verbs, Policy::Off) => Some("RDMA is off, by settings or --transport"),
            (Class::Ofi, _) if !self.classes.contains(&class) => Some(UNASKED),
            _ if !self.classes.contains(&class) => Some("left out by --transport"),
            _ => None,
        }
    }

    /// How libfabric is, once it was asked; `None`: it is not to be used.
    pub(super) fn libfabric(&self) -> Option<String> {
        let offer = self.classes.contains(&Class::Ofi).then(|| self.one(Class::Ofi, None))?;
        Some(if offer.offered { offer.why } else { format!("off: {}", offer.why) })
    }

    /// One line for the start, when devices may not have answered yet.
    pub(super) fn line(&self) -> String {
        let text = |class: Class| {
            let name = class.name();
            match (self.left_out(class), class) {
                (Some(why), _) => format!("no {name}: {why}"),
                (None, Class::Verbs) => "verbs if RDMA is on".to_owned(),
                (None, Class::Ofi) => "ofi if libfabric is there".to_owned(),
                (None, _) => format!("{name} {}", self.one(class, None).why),
            }
        };
        // What nobody asked for is not worth a word here.
        let is_said = |class: &Class| *class != Class::Ofi || self.classes.contains(class);
        Class::ALL.into_iter().filter(is_said).map(text).collect::<Vec<_>>().join("; ")
    }
}

impl From<Offer> for Transport {
    fn from(offer: Offer) -> Self {
        Transport { name: offer.name.to_owned(), offered: offer.offered, reason: offer.why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_says_why() {
        let offers = |classes: &[Class], policy| {
            Offers::of(&Settings { classes: classes.to_vec(), policy, ..Settings::default() })
        };
        let all = offers(&Class::DEFAULT, Policy::Prefer);
        assert!(all.line().contains("shm for clients on this host; verbs if RDMA is on; tcp for"));
        let rdma = Arc::new(Rdma { devices: Vec::new(), off: None });
        let offered = |offers: &Offers| -> Vec<bool> {
            offers.list().into_iter().map(|offer| offer.offered).collect()
        };
        assert_eq!(offered(&all), [true, false, false, true]);
        all.note(&rdma);
        assert_eq!(offered(&all), [true, true, false, true]);
        let tcp = offers(&[Class::Tcp], Policy::Off);
        tcp.note(&rdma);
        assert_eq!(offered(&tcp), [false, false, false, true]);
        let required = offers(&Class::DEFAULT, Policy::Require);
        required.note(&rdma);
        assert_eq!(offered(&required), [false, true, false, false]);
        assert!(required.line().contains("no tcp: RDMA is required"), "{}", required.line());
        let ofi = offers(&[Class::Ofi], Policy::Prefer);
        assert!(ofi.line().contains("ofi if libfabric is there"), "{}", ofi.line());
        ofi.note_providers(Some(Err("it is not installed".to_owned())));
        assert_eq!((ofi.list()[2].offered, &*ofi.list()[2].why), (false, "it is not installed"));
        assert_eq!(ofi.libfabric().as_deref(), Some("off: it is not installed"));
        ofi.note_providers(Some(Ok(vec!["efa".to_owned(), "tcp".to_owned()])));
        assert_eq!((ofi.list()[2].offered, &*ofi.list()[2].why), (true, "by efa, tcp"));
        assert_eq!(ofi.libfabric().as_deref(), Some("by efa, tcp"));
        assert_eq!(all.libfabric(), None, "nobody asked for it");
    }
}
