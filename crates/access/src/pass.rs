//! The permissions of an authenticated caller, checked for every request.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::rate::Bucket;
use super::{Access, Holder, Proof, Refused};

/// One identity, while it is connected.
#[derive(Debug, Clone)]
pub struct Pass {
    access: Arc<Access>,
    holder: Arc<Holder>,
    bucket: Option<Arc<Bucket>>,
    issued_under: RulesVersion,
    unrestricted: bool,
}

/// The version of the rules under which a pass was issued.
#[derive(Debug, Clone, Copy)]
pub(super) struct RulesVersion {
    pub(super) generation: u64,
    pub(super) authority: u64,
}

impl Pass {
    pub(super) fn new(
        access: Arc<Access>,
        holder: Arc<Holder>,
        bucket: Option<Arc<Bucket>>,
        issued_under: RulesVersion,
    ) -> Self {
        let unrestricted = holder.scope.is_everything() && bucket.is_none();
        Pass { access, holder, bucket, issued_under, unrestricted }
    }

    /// The name of its holder.
    pub fn identity(&self) -> &str {
        &self.holder.name
    }

    pub(super) fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Identifies the CAs that were trusted when the pass was issued.
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
        self.holder.scope.reads_everything()
    }

    /// Whether the rules have changed since.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.issued_under.generation != self.access.generation.load(Relaxed)
    }

    /// The same pass under the current rules; `None`: its holder is removed or has changed.
    pub fn renew(&self) -> Option<Pass> {
        let renewed = self.access.admit(self.identity())?;
        let same_authority = self.holder.proof != Proof::Certificate
            || renewed.issued_under.authority == self.issued_under.authority;
        (renewed.holder == self.holder && same_authority).then_some(renewed)
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
    pub fn read(&self, key: &[u8]) -> Result<(), Refused> {
        self.check_rate()?;
        self.check(self.holder.scope.covers(key), Refused::Scope)
    }

    /// Checks a change of a key.
    pub fn write(&self, key: &[u8]) -> Result<(), Refused> {
        self.check_rate()?;
        self.finish(key)
    }

    /// Checks the start of a value whose key follows at its end.
    pub fn begin(&self) -> Result<(), Refused> {
        self.check_rate()?;
        self.check(self.holder.scope.writes(), Refused::Scope)
    }

    /// Checks the end of such a value, which counted against the rate at its start.
    pub fn finish(&self, key: &[u8]) -> Result<(), Refused> {
        let scope = &self.holder.scope;
        self.check(scope.writes() && scope.covers(key), Refused::Scope)
    }

    /// Checks a listing of the keys with this prefix, some of which must be in scope: see [`Pass::narrow`].
    pub fn list(&self, prefix: &[u8]) -> Result<(), Refused> {
        self.check_rate()?;
        self.check(self.holder.scope.narrow(prefix).is_some(), Refused::Scope)
    }

    /// The prefix to which a listing is limited.
    pub fn narrow<'p>(&'p self, prefix: &'p [u8]) -> &'p [u8] {
        self.holder.scope.narrow(prefix).unwrap_or(self.holder.scope.prefix())
    }

    fn check(&self, allowed: bool, reason: Refused) -> Result<(), Refused> {
        if allowed {
            return Ok(());
        }
        self.access.refusals.count(reason);
        Err(reason)
    }
}
