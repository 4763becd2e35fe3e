//! Who may do what: one identity, by whatever protocol it comes.
//!
//! A caller is checked once, when it connects, and gets a [`Pass`], which is checked for every request; a pass for everything
//! costs one branch there. It opens no connection: the program brings [`Holder`]s, protocols bring
//! identities, tokens as callers show them, or names of certificates.
//!
//! Start at [`Access`]. Files with keys, tokens and certificates are read by [`files`], names and passwords compared by
//! [`passwords`]. What may be done is a [`Scope`], how often is in `rate`, and why not a [`Refused`].

pub mod files;
mod header;
mod holder;
mod pass;
pub mod passwords;
mod phase;
mod rate;
mod refused;
mod scope;
pub mod tls;

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fabric::Error;
use fabric::session::Keyring;

pub use holder::{Holder, Proof};
pub use pass::Pass;
pub use phase::Phase;
pub use refused::{Refusals, Refused};
pub use scope::Scope;

use header::Shown;
use pass::Since;
use rate::Bucket;

/// All who may use a store.
#[derive(Debug)]
pub struct Access {
    /// By which tokens are known: that of the listener, so that links know the same.
    keyring: Keyring,
    rules: Mutex<Rules>,
    /// Counts how often the rules were replaced.
    generation: AtomicU64,
    rate: Option<NonZeroU32>,
    buckets: Mutex<HashMap<String, Arc<Bucket>>>,
    began: Instant,
    refusals: Refusals,
}

/// A certificate that was found to be good.
#[derive(Debug, Clone, Copy)]
pub struct Vouched<'c> {
    /// By which it knows its holder.
    pub name: &'c str,
    /// Stands for those who were trusted when it was found so, as for [`Access::trust`].
    pub authority: u64,
}

#[derive(Debug, Default)]
struct Rules {
    holders: HashMap<String, Arc<Holder>>,
    any_certificate: bool,
    /// Stands for those whose certificates are good.
    authority: u64,
}

impl Access {
    /// These may use the store, each so many requests a second; their keys are put on the ring, in the place of
    /// others. `any_certificate`: whoever has a good certificate, too, and may do everything.
    pub fn new(
        keyring: Keyring,
        holders: Vec<Holder>,
        any_certificate: bool,
        rate: Option<NonZeroU32>,
    ) -> Result<Arc<Self>, Error> {
        let access = Access {
            keyring,
            rules: Mutex::default(),
            generation: AtomicU64::new(0),
            rate,
            buckets: Mutex::default(),
            began: Instant::now(),
            refusals: Refusals::default(),
        };
        access.lock().any_certificate = any_certificate;
        access.replace(holders)?;
        Ok(Arc::new(access))
    }

    /// Everybody may do everything.
    pub fn open() -> Arc<Self> {
        let access = Access::new(Keyring::new(), vec![Holder::anonymous()], false, None);
        access.expect("there is no key that could be wrong")
    }

    /// From now on it is these, all or none of them. Who may do something else now, or has another key, is sent
    /// away with the next request or review, and may come again.
    pub fn replace(&self, holders: Vec<Holder>) -> Result<(), Error> {
        let keys = holders.iter().filter_map(|holder| holder.proof.key().cloned()).collect();
        let named = |holder: Holder| (holder.name.clone(), Arc::new(holder));
        let mut rules = self.lock();
        // First, so that who asked for a ticket before is seen to have: see `ticket`.
        self.generation.fetch_add(1, Relaxed);
        self.keyring.replace(keys)?;
        rules.holders = holders.into_iter().map(named).collect();
        Ok(())
    }

    /// Others sign certificates from now on, if this is another number: who came by one must come again, and what
    /// was promised to one is revoked.
    pub fn trust(&self, authority: u64) {
        let mut rules = self.lock();
        if std::mem::replace(&mut rules.authority, authority) != authority {
            // First, as in `replace`.
            self.generation.fetch_add(1, Relaxed);
            self.keyring.withdraw_tickets();
        }
    }

    /// How often the rules were replaced.
    pub fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// A pass for who is known already: by the handshake of a link, or by nothing.
    pub fn admit(self: &Arc<Self>, identity: &str) -> Option<Pass> {
        let rules = self.lock();
        let holder = match rules.holders.get(identity) {
            Some(holder) => holder.clone(),
            None if rules.any_certificate && identity != Holder::ANONYMOUS => {
                Arc::new(Holder::certified(identity, Scope::everything()))
            }
            None => return None,
        };
        let since = Since { generation: self.generation.load(Relaxed), authority: rules.authority };
        drop(rules);
        Some(Pass::new(self.clone(), holder, self.bucket(identity), since))
    }

    /// A pass for who came by a link, if nothing was taken away since it was known by a key or a ticket (`withdrawals`, as
    /// [`Keyring::withdrawals`] tells): else somebody with an old one could wait, and be taken for the new one's holder.
    pub fn admit_link(self: &Arc<Self>, identity: &str, withdrawals: u64) -> Option<Pass> {
        let pass = self.admit(identity)?;
        let needs_none = pass.holder().proof == Proof::Nothing;
        (needs_none || self.keyring.withdrawals() == withdrawals).then_some(pass)
    }

    /// A pass for a caller by gRPC or HTTP: for its certificate, for the token in its header `authorization`, or
    /// for nothing where that is enough. Why not is counted.
    pub fn greet(
        self: &Arc<Self>,
        certificate: Option<Vouched<'_>>,
        header: Option<&[u8]>,
    ) -> Result<Pass, Refused> {
        let shown =
            header.map(|header| Shown::parse(header).and_then(|shown| self.by_token(&shown)));
        let pass = match (shown, certificate) {
            (Some(Some(pass)), _) => Ok(pass),
            // Who may come without is not asked what it brings.
            (Some(None), _) => self.admit(Holder::ANONYMOUS).ok_or(Refused::WrongToken),
            (None, Some(shown)) => self.by_certificate(shown).ok_or(Refused::WrongCertificate),
            (None, None) => self.admit(Holder::ANONYMOUS).ok_or(Refused::NoCredentials),
        };
        pass.inspect_err(|refused| self.refusals.count(*refused))
    }

    /// How often something was refused, and why.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// The ring on which tickets are issued and tokens are known.
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// A token is looked for twice: one that was replaced before the rules were asked must not get the new one's pass.
    /// What is replaced later makes the pass stale.
    fn by_token(self: &Arc<Self>, shown: &Shown) -> Option<Pass> {
        let name = self.keyring.holder(&shown.token)?;
        let meant = shown.name.as_ref().is_none_or(|meant| *meant == name);
        let pass = meant.then(|| self.admit(&name)).flatten()?;
        (self.keyring.holder(&shown.token)? == name).then_some(pass)
    }

    /// A token's name is not a certificate's: who may sign certificates must not be able to be everybody. And who
    /// found it good must be who is trusted now.
    fn by_certificate(self: &Arc<Self>, shown: Vouched<'_>) -> Option<Pass> {
        let pass = self.admit(shown.name)?;
        let is_certificate = pass.holder().proof == Proof::Certificate;
        (is_certificate && pass.authority() == shown.authority).then_some(pass)
    }

    fn bucket(&self, identity: &str) -> Option<Arc<Bucket>> {
        let rate = self.rate?;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket =
            buckets.entry(identity.to_owned()).or_insert_with(|| Arc::new(Bucket::new(rate)));
        Some(bucket.clone())
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        // Nothing is left half done where a panic could happen.
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use fabric::session::Key;

    use super::*;

    fn token(name: &str, token: &str, scope: Scope) -> Holder {
        Holder {
            name: name.to_owned(),
            proof: Proof::Key(Key::from_token(name, token).unwrap()),
            scope,
        }
    }

    fn vouched(name: &str, authority: u64) -> Option<Vouched<'_>> {
        Some(Vouched { name, authority })
    }

    fn bearer(access: &Arc<Access>, token: &str) -> Result<String, Refused> {
        let header = format!("Bearer {token}");
        access.greet(None, Some(header.as_bytes())).map(|pass| pass.identity().to_owned())
    }

    #[test]
    fn a_token_is_its_holder_and_nothing_else_is() {
        let holders = vec![token("ann", "wlt_ann", Scope::everything())];
        let access = Access::new(Keyring::new(), holders, false, None).unwrap();
        assert_eq!(bearer(&access, "wlt_ann").as_deref(), Ok("ann"));
        assert_eq!(bearer(&access, "wlt_bob"), Err(Refused::WrongToken));
        assert_eq!(access.greet(None, None).err(), Some(Refused::NoCredentials));
        // ann:wlt_ann, bob:wlt_ann
        let basic = |text: &str| access.greet(None, Some(text.as_bytes())).err();
        assert_eq!(basic("Basic YW5uOndsdF9hbm4="), None);
        assert_eq!(basic("Basic Ym9iOndsdF9hbm4="), Some(Refused::WrongToken));
        assert_eq!(access.greet(vouched("ann", 0), None).err(), Some(Refused::WrongCertificate));
        assert_eq!(access.refusals().of(Refused::WrongToken), 2);
    }

    #[test]
    fn where_nothing_is_asked_for_anything_will_do() {
        let access = Access::open();
        assert_eq!(bearer(&access, "wlt_old").as_deref(), Ok("anonymous"));
        assert!(access.greet(None, None).unwrap().is_free());
        assert!(access.admit("somebody").is_none());
    }

    #[test]
    fn certificates_have_a_line_or_all_are_good() {
        let named = vec![Holder::certified("node1", Scope::new(false, b""))];
        let named = Access::new(Keyring::new(), named, false, None).unwrap();
        assert_eq!(
            named.greet(vouched("node1", 0), None).unwrap().write(b"k"),
            Err(Refused::Scope)
        );
        assert_eq!(named.greet(vouched("node2", 0), None).err(), Some(Refused::WrongCertificate));
        let node1 = named.admit("node1").unwrap();
        named.trust(7);
        assert!(node1.is_stale() && node1.renew().is_none(), "its signer may be trusted no more");
        let node1 = named.admit("node1").unwrap();
        named.trust(7);
        assert!(!node1.is_stale());
        let any = Access::new(Keyring::new(), Vec::new(), true, None).unwrap();
        assert!(any.greet(vouched("node2", 0), None).unwrap().is_free());
        assert_eq!(any.greet(vouched("anonymous", 0), None).err(), Some(Refused::WrongCertificate));
    }

    #[test]
    fn what_was_good_before_others_were_trusted_is_good_no_more() {
        let access = Access::new(Keyring::new(), Vec::new(), true, None).unwrap();
        let issue = || access.keyring().issue("node1", Duration::from_secs(60)).unwrap();
        issue();
        let before = access.keyring().withdrawals();
        access.trust(7);
        let old = access.greet(vouched("node1", 0), None);
        assert_eq!(old.err(), Some(Refused::WrongCertificate), "judged by those of before");
        assert!(access.greet(vouched("node1", 7), None).is_ok());
        assert!(format!("{:?}", access.keyring()).contains("tickets: 0"));
        assert!(access.admit_link("node1", before).is_none(), "by a ticket of before, and late");
        issue();
        access.trust(7);
        assert!(format!("{:?}", access.keyring()).contains("tickets: 1"), "nothing has changed");
    }

    #[test]
    fn a_pass_is_renewed_only_as_it_was() {
        let line = |name, secret, writes| token(name, secret, Scope::new(writes, b""));
        let before = vec![
            line("ann", "wlt_1", true),
            line("bob", "wlt_2", true),
            line("eve", "wlt_3", true),
        ];
        let access = Access::new(Keyring::new(), before, false, None).unwrap();
        let [ann, bob, eve] = ["ann", "bob", "eve"].map(|name| access.admit(name).unwrap());
        assert!(!ann.is_stale());
        let after = vec![
            line("ann", "wlt_1", true),
            line("bob", "wlt_2", false),
            line("eve", "wlt_4", true),
        ];
        access.replace(after).unwrap();
        assert!(ann.is_stale() && ann.renew().is_some_and(|ann| !ann.is_stale()));
        assert!(bob.renew().is_none() && eve.renew().is_none());
        assert_eq!(bearer(&access, "wlt_3"), Err(Refused::WrongToken));
        let now = access.keyring().withdrawals();
        assert!(access.admit_link("eve", now).is_some(), "by the new key");
        assert!(access.admit_link("eve", now - 1).is_none(), "by the old one, and late");
        let twice = vec![line("ann", "wlt_1", true), line("two", "wlt_1", true)];
        assert!(access.replace(twice).is_err() && access.admit("eve").is_some(), "all or none");
    }

    #[test]
    fn all_sessions_of_an_identity_share_its_rate() {
        let holders = vec![Holder::anonymous(), token("ann", "wlt_ann", Scope::everything())];
        let access = Access::new(Keyring::new(), holders, false, NonZeroU32::new(3)).unwrap();
        let [one, other] = [(); 2].map(|()| access.admit("ann").unwrap());
        assert!(!one.is_free());
        let asked = (0..4).map(|_| one.read(b"k").and(other.read(b"k")));
        assert!(asked.collect::<Result<Vec<_>, _>>().is_err());
        assert_eq!(access.admit("anonymous").unwrap().ask(), Ok(()), "others are not in the way");
        assert!(access.refusals().of(Refused::Rate) >= 1);
    }
}
