//! What somebody who was let in may do, asked for every request.

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
    since: Since,
    free: bool,
}

/// Under which rules a pass was given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Since {
    pub(super) generation: u64,
    pub(super) authority: u64,
}

impl Pass {
    pub(super) fn new(
        access: Arc<Access>,
        holder: Arc<Holder>,
        bucket: Option<Arc<Bucket>>,
        since: Since,
    ) -> Self {
        let free = holder.scope.is_everything() && bucket.is_none();
        Pass { access, holder, bucket, since, free }
    }

    /// Whose it is.
    pub fn identity(&self) -> &str {
        &self.holder.name
    }

    pub(super) fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Stands for those who were trusted to sign certificates when it was given.
    pub(super) fn authority(&self) -> u64 {
        self.since.authority
    }

    /// Whether it may do everything, as often as it likes: nothing need be asked then.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.free
    }

    /// Whether every key may be read.
    pub fn reads_everything(&self) -> bool {
        self.holder.scope.reads_everything()
    }

    /// Whether the rules have changed since.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.since.generation != self.access.generation.load(Relaxed)
    }

    /// The same under the rules of now; `None`: they do not have it so any more.
    pub fn renew(&self) -> Option<Pass> {
        let renewed = self.access.admit(self.identity())?;
        let signed = self.holder.proof != Proof::Certificate
            || renewed.since.authority == self.since.authority;
        (renewed.holder == self.holder && signed).then_some(renewed)
    }

    /// Asks for something that concerns no key.
    pub fn ask(&self) -> Result<(), Refused> {
        let taken = self.bucket.as_ref().is_none_or(|bucket| bucket.take(self.access.now()));
        self.judge(taken, Refused::Rate)
    }

    /// Asks to see what is of all keys together.
    pub fn look(&self) -> Result<(), Refused> {
        self.ask()?;
        self.judge(self.reads_everything(), Refused::Scope)
    }

    /// Asks to read a key.
    pub fn read(&self, key: &[u8]) -> Result<(), Refused> {
        self.ask()?;
        self.judge(self.holder.scope.covers(key), Refused::Scope)
    }

    /// Asks to change a key.
    pub fn write(&self, key: &[u8]) -> Result<(), Refused> {
        self.ask()?;
        self.finish(key)
    }

    /// Asks to begin a value whose key is told at its end.
    pub fn begin(&self) -> Result<(), Refused> {
        self.ask()?;
        self.judge(self.holder.scope.writes(), Refused::Scope)
    }

    /// Asks to end such a value, which was counted when it began.
    pub fn finish(&self, key: &[u8]) -> Result<(), Refused> {
        let scope = &self.holder.scope;
        self.judge(scope.writes() && scope.covers(key), Refused::Scope)
    }

    /// Asks for a listing of the keys that begin so, of which it may see some: see [`Pass::narrow`].
    pub fn list(&self, prefix: &[u8]) -> Result<(), Refused> {
        self.ask()?;
        self.judge(self.holder.scope.narrow(prefix).is_some(), Refused::Scope)
    }

    /// What a listing is narrowed to.
    pub fn narrow<'p>(&'p self, prefix: &'p [u8]) -> &'p [u8] {
        self.holder.scope.narrow(prefix).unwrap_or(self.holder.scope.prefix())
    }

    fn judge(&self, good: bool, otherwise: Refused) -> Result<(), Refused> {
        if good {
            return Ok(());
        }
        self.access.refusals.count(otherwise);
        Err(otherwise)
    }
}
