//! Authentication and authorization, the same for every protocol.
//!
//! A caller is authenticated once, when it connects, and gets its [`Permissions`], which are checked for every request; unrestricted ones
//! cost one branch there. This crate opens no connection: the program supplies the [`Identity`]s, protocols supply
//! names of identities, tokens or names of certificates.
//!
//! Start at [`Access`]. [`files`] reads keys, tokens and certificates, [`passwords`] compares names and passwords. A [`Scope`]
//! limits the keys and operations, `rate` the requests per second; a [`Refused`] is the reason of a refusal. [`Connections`]
//! are those of one listener, and their limit.

mod connections;
pub mod files;
mod header;
mod identity;
pub mod passwords;
mod permissions;
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

pub use connections::{Connection, Connections, NotAdmitted};
pub use identity::{Credential, Identity};
pub use permissions::Permissions;
pub use phase::Phase;
pub use refused::{Refusals, Refused};
pub use scope::Scope;

use header::Authorization;
use permissions::RulesVersion;
use rate::Bucket;

/// All identities that may use a store.
#[derive(Debug)]
pub struct Access {
    /// Finds the identity of a token. Shared with the listener, so that links accept the same tokens.
    keyring: Keyring,
    rules: Mutex<Rules>,
    /// Incremented each time the rules are replaced.
    generation: AtomicU64,
    rate: Option<NonZeroU32>,
    buckets: Mutex<HashMap<String, Arc<Bucket>>>,
    began: Instant,
    refusals: Refusals,
}

/// A certificate that was verified.
#[derive(Debug, Clone, Copy)]
pub struct VerifiedCertificate<'c> {
    /// The name of its holder.
    pub name: &'c str,
    /// Identifies the set of CAs that it was verified against, as in [`Access::trust`].
    pub authority: u64,
}

#[derive(Debug, Default)]
struct Rules {
    identities: HashMap<String, Arc<Identity>>,
    any_certificate: bool,
    /// Identifies the set of trusted CAs.
    authority: u64,
}

impl Access {
    /// Grants access to `identities`, each limited to `rate` requests a second. Their keys replace those of the keyring.
    /// `any_certificate`: every valid certificate also gives access to everything.
    pub fn new(
        keyring: Keyring,
        identities: Vec<Identity>,
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
        access.replace(identities)?;
        Ok(Arc::new(access))
    }

    /// Without authentication: every caller may do everything.
    pub fn allow_all() -> Arc<Self> {
        let access = Access::new(Keyring::new(), vec![Identity::anonymous()], false, None);
        access.expect("no key can be invalid")
    }

    /// Replaces all identities, or none of them on an error. A caller whose scope or key has changed is disconnected at its next
    /// request, or when its connection is checked again, and may reconnect.
    pub fn replace(&self, identities: Vec<Identity>) -> Result<(), Error> {
        let keys =
            identities.iter().filter_map(|identity| identity.credential.key().cloned()).collect();
        let named = |identity: Identity| (identity.name.clone(), Arc::new(identity));
        let mut rules = self.lock();
        // Before the keys, so that a ticket requested under the old rules is recognised as such: see `kv-server/src/grpc/query.rs`.
        self.generation.fetch_add(1, Relaxed);
        self.keyring.replace(keys)?;
        rules.identities = identities.into_iter().map(named).collect();
        Ok(())
    }

    /// Sets the trusted CAs. If `authority` differs from before, callers with a certificate must connect again, and tickets
    /// issued to them are revoked.
    pub fn trust(&self, authority: u64) {
        let mut rules = self.lock();
        if std::mem::replace(&mut rules.authority, authority) != authority {
            // Before the tickets, as in `replace`.
            self.generation.fetch_add(1, Relaxed);
            self.keyring.revoke_tickets();
        }
    }

    /// How often the rules were replaced.
    pub fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// The permissions of an identity that is authenticated already (by the handshake of a link) or anonymous.
    pub fn admit(self: &Arc<Self>, name: &str) -> Option<Permissions> {
        let rules = self.lock();
        let identity = match rules.identities.get(name) {
            Some(identity) => identity.clone(),
            None if rules.any_certificate && name != Identity::ANONYMOUS => {
                Arc::new(Identity::certified(name, Scope::everything()))
            }
            None => return None,
        };
        let version =
            RulesVersion { generation: self.generation.load(Relaxed), authority: rules.authority };
        drop(rules);
        Some(Permissions::new(self.clone(), identity, self.bucket(name), version))
    }

    /// The permissions of the peer of a link, if no key or ticket was revoked since its handshake (`revocations`, from
    /// [`Keyring::revocations`]): otherwise a peer with an old key could wait and be taken for the owner of the new one.
    pub fn admit_link(self: &Arc<Self>, name: &str, revocations: u64) -> Option<Permissions> {
        let permissions = self.admit(name)?;
        let needs_none = permissions.identity().credential == Credential::Nothing;
        (needs_none || self.keyring.revocations() == revocations).then_some(permissions)
    }

    /// The permissions of a caller by gRPC or HTTP: by its certificate, by the token in its header `authorization`, or
    /// anonymous where that is allowed. Refusals are counted by reason.
    pub fn authenticate(
        self: &Arc<Self>,
        certificate: Option<VerifiedCertificate<'_>>,
        header: Option<&[u8]>,
    ) -> Result<Permissions, Refused> {
        let by_header = header
            .map(|header| Authorization::parse(header).and_then(|header| self.by_token(&header)));
        let permissions = match (by_header, certificate) {
            (Some(Some(permissions)), _) => Ok(permissions),
            // Where anonymous callers are admitted, a wrong token does no harm.
            (Some(None), _) => self.admit(Identity::ANONYMOUS).ok_or(Refused::WrongToken),
            (None, Some(certificate)) => {
                self.by_certificate(certificate).ok_or(Refused::WrongCertificate)
            }
            (None, None) => self.admit(Identity::ANONYMOUS).ok_or(Refused::NoCredentials),
        };
        permissions.inspect_err(|refused| self.refusals.count(*refused))
    }

    /// Counts of refusals, by reason.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// The keyring that issues tickets and knows the tokens.
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Looks the token up twice: a token that was replaced before `admit` must not get the permissions of the new one.
    /// A later replacement makes them stale.
    fn by_token(self: &Arc<Self>, header: &Authorization) -> Option<Permissions> {
        let name = self.keyring.name_of(&header.token)?;
        let name_matches = header.name.as_ref().is_none_or(|given| *given == name);
        let permissions = name_matches.then(|| self.admit(&name)).flatten()?;
        (self.keyring.name_of(&header.token)? == name).then_some(permissions)
    }

    /// A certificate never stands for the identity of a token with the same name: a CA must not be able to impersonate it.
    /// And the certificate must have been verified against the CAs that are trusted now.
    fn by_certificate(
        self: &Arc<Self>,
        certificate: VerifiedCertificate<'_>,
    ) -> Option<Permissions> {
        let permissions = self.admit(certificate.name)?;
        let is_certificate = permissions.identity().credential == Credential::Certificate;
        (is_certificate && permissions.authority() == certificate.authority).then_some(permissions)
    }

    fn bucket(&self, name: &str) -> Option<Arc<Bucket>> {
        let rate = self.rate?;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_IDLE_BUCKETS {
            // Names of certificates have no other limit.
            let now = self.now();
            buckets.retain(|_, bucket| Arc::strong_count(bucket) > 1 || !bucket.is_full(now));
        }
        let bucket = buckets.entry(name.to_owned()).or_insert_with(|| Arc::new(Bucket::new(rate)));
        Some(bucket.clone())
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        // No code that can panic leaves the rules half changed.
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Above this number, buckets that nobody uses are dropped.
const MAX_IDLE_BUCKETS: usize = 4096;

#[cfg(test)]
mod tests {
    use fabric::session::Key;

    use super::*;

    fn token(name: &str, token: &str, scope: Scope) -> Identity {
        Identity {
            name: name.to_owned(),
            credential: Credential::Key(Key::from_token(name, token).unwrap()),
            scope,
        }
    }

    fn verified(name: &str, authority: u64) -> Option<VerifiedCertificate<'_>> {
        Some(VerifiedCertificate { name, authority })
    }

    fn bearer(access: &Arc<Access>, token: &str) -> Result<String, Refused> {
        let header = format!("Bearer {token}");
        access
            .authenticate(None, Some(header.as_bytes()))
            .map(|permissions| permissions.identity_name().to_owned())
    }

    #[test]
    fn a_token_authenticates_its_identity_only() {
        let identities = vec![token("ann", "wlt_ann", Scope::everything())];
        let access = Access::new(Keyring::new(), identities, false, None).unwrap();
        assert_eq!(bearer(&access, "wlt_ann").as_deref(), Ok("ann"));
        assert_eq!(bearer(&access, "wlt_bob"), Err(Refused::WrongToken));
        assert_eq!(access.authenticate(None, None).err(), Some(Refused::NoCredentials));
        // ann:wlt_ann, bob:wlt_ann
        let basic = |text: &str| access.authenticate(None, Some(text.as_bytes())).err();
        assert_eq!(basic("Basic YW5uOndsdF9hbm4="), None);
        assert_eq!(basic("Basic Ym9iOndsdF9hbm4="), Some(Refused::WrongToken));
        assert_eq!(
            access.authenticate(verified("ann", 0), None).err(),
            Some(Refused::WrongCertificate)
        );
        assert_eq!(access.refusals().of(Refused::WrongToken), 2);
    }

    #[test]
    fn open_access_ignores_credentials() {
        let access = Access::allow_all();
        assert_eq!(bearer(&access, "wlt_old").as_deref(), Ok("anonymous"));
        assert!(access.authenticate(None, None).unwrap().is_unrestricted());
        assert!(access.admit("somebody").is_none());
    }

    #[test]
    fn certificates_need_an_identity_or_any_certificate() {
        let named = vec![Identity::certified("node1", Scope::new(false, b""))];
        let named = Access::new(Keyring::new(), named, false, None).unwrap();
        assert_eq!(
            named.authenticate(verified("node1", 0), None).unwrap().check_write(b"k"),
            Err(Refused::Scope)
        );
        assert_eq!(
            named.authenticate(verified("node2", 0), None).err(),
            Some(Refused::WrongCertificate)
        );
        let node1 = named.admit("node1").unwrap();
        named.trust(7);
        assert!(node1.is_stale() && node1.renew().is_none(), "the CAs have changed");
        let node1 = named.admit("node1").unwrap();
        named.trust(7);
        assert!(!node1.is_stale());
        let any = Access::new(Keyring::new(), Vec::new(), true, None).unwrap();
        assert!(any.authenticate(verified("node2", 0), None).unwrap().is_unrestricted());
        assert_eq!(
            any.authenticate(verified("anonymous", 0), None).err(),
            Some(Refused::WrongCertificate)
        );
    }

    #[test]
    fn a_change_of_trusted_cas_invalidates_certificates_and_tickets() {
        let access = Access::new(Keyring::new(), Vec::new(), true, None).unwrap();
        let issue = || access.keyring().issue("node1", Duration::from_secs(60)).unwrap();
        issue();
        let before = access.keyring().revocations();
        access.trust(7);
        let old = access.authenticate(verified("node1", 0), None);
        assert_eq!(old.err(), Some(Refused::WrongCertificate), "verified against the old CAs");
        assert!(access.authenticate(verified("node1", 7), None).is_ok());
        assert!(format!("{:?}", access.keyring()).contains("tickets: 0"));
        assert!(access.admit_link("node1", before).is_none(), "by a withdrawn ticket");
        issue();
        access.trust(7);
        assert!(format!("{:?}", access.keyring()).contains("tickets: 1"), "the same CAs");
    }

    #[test]
    fn a_pass_is_renewed_only_if_unchanged() {
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
        let now = access.keyring().revocations();
        assert!(access.admit_link("eve", now).is_some(), "by the new key");
        assert!(access.admit_link("eve", now - 1).is_none(), "by the old one");
        let twice = vec![line("ann", "wlt_1", true), line("two", "wlt_1", true)];
        assert!(access.replace(twice).is_err() && access.admit("eve").is_some(), "all or none");
    }

    #[test]
    fn all_sessions_of_an_identity_share_its_rate() {
        let identities = vec![Identity::anonymous(), token("ann", "wlt_ann", Scope::everything())];
        let access = Access::new(Keyring::new(), identities, false, NonZeroU32::new(3)).unwrap();
        let [one, other] = [(); 2].map(|()| access.admit("ann").unwrap());
        assert!(!one.is_unrestricted());
        let checked = (0..4).map(|_| one.check_read(b"k").and(other.check_read(b"k")));
        assert!(checked.collect::<Result<Vec<_>, _>>().is_err());
        assert_eq!(
            access.admit("anonymous").unwrap().check_rate(),
            Ok(()),
            "other identities are not limited"
        );
        assert!(access.refusals().of(Refused::Rate) >= 1);
    }

    #[test]
    fn the_rates_of_names_that_nobody_uses_are_dropped() {
        let access = Access::new(Keyring::new(), Vec::new(), true, NonZeroU32::new(3)).unwrap();
        let used = access.admit("used").unwrap();
        for number in 0..3 * MAX_IDLE_BUCKETS {
            assert!(access.admit(&format!("pod-{number}")).is_some());
        }
        let buckets = access.buckets.lock().unwrap();
        assert!(buckets.len() <= MAX_IDLE_BUCKETS, "{}", buckets.len());
        assert!(buckets.contains_key("used"), "{used:?}");
    }
}
