//! The permissions of an authenticated caller, checked for every request.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::rate::Bucket;
use super::{Access, Credential, Identity, Refused};

/// One identity, while it is connected.
#[derive(Debug, Clone)]
pub struct Permissions {
    access: Arc<Access>,
    identity: Arc<Identity>,
    bucket: Option<Arc<Bucket>>,
    issued_under: RulesVersion,
    unrestricted: bool,
}

/// The version of the rules under which permissions were issued.
#[derive(Debug, Clone, Copy)]
pub(super) struct RulesVersion {
    pub(super) generation: u64,
    pub(super) authority: u64,
}

impl Permissions {
    pub(super) fn new(
        access: Arc<Access>,
        identity: Arc<Identity>,
        bucket: Option<Arc<Bucket>>,
        issued_under: RulesVersion,
    ) -> Self {
        let unrestricted = identity.scope.is_everything() && bucket.is_none();
        Permissions { access, identity, bucket, issued_under, unrestricted }
    }

    /// The name of the identity.
    pub fn identity_name(&self) -> &str {
        &self.identity.name
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Identifies the CAs that were trusted when the permissions were issued.
    pub(super) fn authority(&self) -> u64 {
        self.issued_under.authority
    }

    /// Whether every request is allowed, at any rate: no check is needed then.
    #[inline]
    pub fn is_unrestricted(&self) -> bool {
        self.unrestricted
    }

    /// Whether every key may be read.
    pub fn reads_everything(&self) -> bool {
        self.identity.scope.reads_everything()
    }

    /// Whether the rules have changed since.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.issued_under.generation != self.access.generation.load(Relaxed)
    }

    /// The same under the current rules; `None`: the identity is removed or has changed.
    pub fn renew(&self) -> Option<Permissions> {
        let renewed = self.access.admit(self.identity_name())?;
        let same_authority = self.identity.credential != Credential::Certificate
            || renewed.issued_under.authority == self.issued_under.authority;
        (renewed.identity == self.identity && same_authority).then_some(renewed)
    }

    /// Checks a request that concerns no key: the rate alone.
    pub fn check_rate(&self) -> Result<(), Refused> {
        let within_rate = self.bucket.as_ref().is_none_or(|bucket| bucket.take(self.access.now()));
        self.check(within_rate, Refused::Rate)
    }

    /// Checks a request for data about all keys.
    pub fn check_read_all(&self) -> Result<(), Refused> {
        self.check_rate()?;
        self.check(self.reads_everything(), Refused::Scope)
    }

    /// Checks a read of a key.
    pub fn check_read(&self, key: &[u8]) -> Result<(), Refused> {
        self.check_rate()?;
        self.check(self.identity.scope.covers(key), Refused::Scope)
    }

    /// Checks a change of a key.
    pub fn check_write(&self, key: &[u8]) -> Result<(), Refused> {
        self.check_rate()?;
        self.check_write_scope(key)
    }

    /// Checks the start of a value whose key follows at its end.
    pub fn check_begin(&self) -> Result<(), Refused> {
        self.check_rate()?;
        self.check(self.identity.scope.writes(), Refused::Scope)
    }

    /// Checks a change of a key that was counted against the rate before: the end of such a value, or a repeated write.
    pub fn check_write_scope(&self, key: &[u8]) -> Result<(), Refused> {
        let scope = &self.identity.scope;
        self.check(scope.writes() && scope.covers(key), Refused::Scope)
    }

    /// Checks a listing of the keys with this prefix, some of which must be in scope: see [`Permissions::narrow`].
    pub fn check_list(&self, prefix: &[u8]) -> Result<(), Refused> {
        self.check_rate()?;
        self.check(self.identity.scope.narrow(prefix).is_some(), Refused::Scope)
    }

    /// The prefix to which a listing is limited.
    pub fn narrow<'p>(&'p self, prefix: &'p [u8]) -> &'p [u8] {
        self.identity.scope.narrow(prefix).unwrap_or(self.identity.scope.prefix())
    }

    fn check(&self, allowed: bool, reason: Refused) -> Result<(), Refused> {
        if allowed {
            return Ok(());
        }
        self.access.refusals.count(reason);
        Err(reason)
    }
}
