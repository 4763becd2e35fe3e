//! Changes that are durable in the log and not yet in the index. Readers look here first.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::change::{KeyState, RemovalCause, Shard};
use crate::error::{Error, ErrorKind};
use crate::position::Position;
use crate::row::{RemovedRow, Row};

/// The last change of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastChange {
    Value(Row),
    /// The key has no value.
    Removed(RemovedRow),
}

impl LastChange {
    /// The file of the value, if it has one of its own.
    pub(crate) fn long(&self) -> Option<u64> {
        match self {
            LastChange::Value(row) => row.long,
            LastChange::Removed(_) => None,
        }
    }

    pub(crate) fn state(&self) -> KeyState {
        match self {
            LastChange::Value(row) => KeyState::Value(row.metadata),
            LastChange::Removed(row) => row.state(),
        }
    }

    pub(crate) fn is_expiry(&self) -> bool {
        matches!(self, LastChange::Removed(row) if row.cause == RemovalCause::Expiry)
    }

    pub(crate) fn shard(&self) -> Option<Shard> {
        match self {
            LastChange::Value(row) => row.shard,
            LastChange::Removed(row) => row.shard,
        }
    }

    pub(crate) fn version(&self) -> u64 {
        match self {
            LastChange::Value(row) => row.metadata.version,
            LastChange::Removed(row) => row.version,
        }
    }
}

/// A key and its last change.
pub(crate) type KeyChange = (Box<[u8]>, LastChange);
pub(crate) type Changes = BTreeMap<Box<[u8]>, LastChange>;

/// Changes for the index: the last one of each key.
#[derive(Debug, Default)]
pub(crate) struct ChangeSet {
    pub(crate) changes: Changes,
    /// Where the log after them begins.
    pub(crate) end: Option<Position>,
    /// The last batch and the last run in them.
    pub(crate) batch: u64,
    pub(crate) run: u64,
    /// Long values that were replaced before the index had them.
    pub(crate) unused: Vec<u64>,
    /// Shards whose removals up to a version need not be kept.
    pub(crate) forgotten: Vec<(Shard, u64)>,
}

#[derive(Debug, Default)]
pub(crate) struct UnindexedChanges {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// To which changes are added.
    active: ChangeSet,
    /// The bytes of the keys of `active`, and of its entries.
    bytes: usize,
    /// Which are being applied to the index.
    frozen: Option<Arc<ChangeSet>>,
    /// How often changes were applied to the index.
    applied: u64,
    /// Why the frozen ones could not be applied.
    failure: Option<Error>,
    stopped: bool,
    /// Somebody waits for the index.
    woken: bool,
}

/// What is to be done for the index next.
pub(crate) enum NextChanges {
    /// Apply these.
    Some(Arc<ChangeSet>),
    /// Nothing was changed for a while: there is time to sync, and to remove what is not needed.
    None,
    /// It was stopped, and all changes are applied.
    Stopped,
}

impl UnindexedChanges {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the changes of a batch, which is durable.
    pub(crate) fn add(
        &self,
        changes: impl IntoIterator<Item = KeyChange>,
        end: Position,
        batch: u64,
        run: Option<u64>,
    ) {
        let mut inner = self.lock();
        let is_first = inner.active.end.is_none();
        for (key, change) in changes {
            let bytes = key.len() + ENTRY_BYTES;
            match inner.active.changes.insert(key, change) {
                None => inner.bytes += bytes,
                Some(replaced) if replaced.long() == change.long() => {}
                Some(replaced) => inner.active.unused.extend(replaced.long()),
            }
        }
        inner.active.end = Some(end);
        inner.active.batch = batch;
        inner.active.run = run.unwrap_or(0).max(inner.active.run);
        let is_large = inner.bytes >= FREEZE_BYTES;
        drop(inner);
        if is_first || is_large {
            self.changed.notify_all();
        }
    }

    /// The index need not keep the removals of a shard up to this version. The log ends here, after this batch.
    pub(crate) fn forget_removals(&self, shard: Shard, version: u64, end: Position, batch: u64) {
        let mut inner = self.lock();
        inner.active.forgotten.push((shard, version));
        (inner.active.end, inner.active.batch) = (Some(end), batch);
        drop(inner);
        self.changed.notify_all();
    }

    /// Waits until there is space for more changes; fails if the earlier ones cannot be applied to the index.
    pub(crate) fn make_space(&self) -> Result<(), Error> {
        let mut inner = self.lock();
        while inner.bytes >= MAX_BYTES {
            if let Some(failure) = &inner.failure {
                return Err(failure.clone());
            }
            if inner.stopped {
                let text = "write to disk: the thread for the index has ended — restart the store";
                return Err(Error::new(ErrorKind::Failed, text));
            }
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Waits until the index has all changes added before; returns whether it has.
    pub(crate) fn flush(&self) -> bool {
        let mut inner = self.lock();
        let Some(end) = inner.active.end.or(inner.frozen.as_ref().and_then(|frozen| frozen.end))
        else {
            return true;
        };
        let is_pending = |frozen: Option<&ChangeSet>| {
            frozen.and_then(|frozen| frozen.end).is_some_and(|first| first <= end)
        };
        while is_pending(Some(&inner.active)) || is_pending(inner.frozen.as_deref()) {
            if inner.failure.is_some() || inner.stopped {
                return false;
            }
            inner.woken = true;
            self.changed.notify_all();
            let waited = self.changed.wait_timeout(inner, FLUSH_POLL);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The last change of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<LastChange> {
        self.get_and_count(key).0
    }

    /// The same, and how often changes were applied to the index.
    pub(crate) fn get_and_count(&self, key: &[u8]) -> (Option<LastChange>, u64) {
        let inner = self.lock();
        let frozen = || inner.frozen.as_ref().and_then(|frozen| frozen.changes.get(key));
        (inner.active.changes.get(key).or_else(frozen).copied(), inner.applied)
    }

    /// How often changes were applied to the index: while this is the same, what an earlier read transaction of the index does not have is
    /// here.
    pub(crate) fn applied_count(&self) -> u64 {
        self.lock().applied
    }

    /// The changes of keys with a prefix, after a key.
    pub(crate) fn with_prefix(&self, prefix: &[u8], after: &[u8]) -> Changes {
        let from = match after >= prefix && !after.is_empty() {
            true => Bound::Excluded(after),
            false => Bound::Included(prefix),
        };
        let inner = self.lock();
        let matching = |changes: &Changes| {
            let range = changes.range::<[u8], _>((from, Bound::Unbounded));
            let matching = range.take_while(|(key, _)| key.starts_with(prefix));
            matching.map(|(key, change)| (key.clone(), *change)).collect::<Changes>()
        };
        let mut all = inner.frozen.as_ref().map(|frozen| matching(&frozen.changes));
        let active = matching(&inner.active.changes);
        match &mut all {
            Some(all) => all.extend(active),
            None => return active,
        }
        all.unwrap_or_default()
    }

    /// The changes of a shard.
    pub(crate) fn of_shard(&self, shard: Shard) -> Changes {
        let inner = self.lock();
        let frozen = inner.frozen.iter().flat_map(|frozen| &frozen.changes);
        // A later change of a key replaces the earlier one.
        let all = frozen.chain(&inner.active.changes);
        all.filter(|(_, change)| change.shard() == Some(shard))
            .map(|(key, change)| (key.clone(), *change))
            .collect()
    }

    /// The changes to be applied to the index next. Blocks until there are some, and a while for more; not for long unless
    /// `idle`.
    pub(crate) fn next_changes(&self, idle: bool) -> NextChanges {
        let mut inner = self.lock();
        let has_none = |inner: &Inner| inner.frozen.is_none() && inner.active.end.is_none();
        if has_none(&inner) && !inner.stopped && !inner.woken {
            let limit = if idle { IDLE_INTERVAL } else { FREEZE_INTERVAL };
            inner = self.wait(inner, limit);
        }
        let deadline = Instant::now() + FREEZE_INTERVAL;
        while inner.frozen.is_none()
            && inner.active.end.is_some()
            && inner.bytes < FREEZE_BYTES
            && !inner.stopped
            && !inner.woken
        {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = self.wait(inner, left);
        }
        inner.woken = false;
        if inner.frozen.is_none() && inner.active.end.is_some() {
            inner.frozen = Some(Arc::new(std::mem::take(&mut inner.active)));
            inner.bytes = 0;
        }
        match (inner.frozen.clone(), inner.stopped) {
            (Some(changes), _) => NextChanges::Some(changes),
            (None, false) => NextChanges::None,
            (None, true) => NextChanges::Stopped,
        }
    }

    /// Lets what there is now be applied to the index, and remove what is not needed.
    pub(crate) fn wake(&self) {
        self.lock().woken = true;
        self.changed.notify_all();
    }

    fn wait<'i>(&self, inner: MutexGuard<'i, Inner>, limit: Duration) -> MutexGuard<'i, Inner> {
        self.changed.wait_timeout(inner, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// The index has the frozen changes, or they could not be applied.
    pub(crate) fn applied(&self, result: Result<(), Error>) {
        let mut inner = self.lock();
        match result {
            Ok(()) => {
                (inner.frozen, inner.failure) = (None, None);
                inner.applied += 1;
            }
            Err(failure) => inner.failure = Some(failure),
        }
        self.changed.notify_all();
    }

    /// Why changes cannot be applied to the index, if so.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    /// Ends the thread that fills the index, when it has what is here.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }
}

/// The approximate size of an entry without its key.
const ENTRY_BYTES: usize = 128;
/// The size at which changes are given to the index, and the one at which writes wait for it.
const FREEZE_BYTES: usize = 8 << 20;
const MAX_BYTES: usize = 64 << 20;
/// How long changes wait for more.
const FREEZE_INTERVAL: Duration = Duration::from_secs(1);
/// How long the index waits while nothing is written.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);
const FLUSH_POLL: Duration = Duration::from_millis(10);
