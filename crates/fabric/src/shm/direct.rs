//! Operations by loads and stores, and by the kernel: those the peer need not be asked for.

use std::sync::atomic::{Ordering, fence};

use super::lane::Connection;
use super::process::Direction;
use crate::op::{Failure, Work};
use crate::region::{Rights, Slice};
use crate::remote::{Reach, Target, Window};
use crate::segment::control_block::GrantId;
use crate::segment::mapping::PeerMapping;

/// What came of an attempt. Small, so that it stays in registers on its way up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Placed,
    /// With the number that was there.
    Old,
    /// The peer must be asked, by the engine.
    Ask,
    Failed(Failure),
}

/// Does what loads and stores can do.
#[inline]
pub(super) fn direct(work: &Work, connection: &Connection) -> (Verdict, u64) {
    let Some(target) = work.target() else { return (Verdict::Ask, 0) };
    match target.window.reach() {
        Reach::Mapped(mapping) => {
            // The owner waits for this before it lets go of the memory; see `Fence`.
            connection.control_block.touch(mapping.grant());
            let done = match mapping.is_granted() {
                true => mapped(work, target, mapping),
                false => (Verdict::Failed(not_granted(connection)), 0),
            };
            connection.control_block.let_go();
            done
        }
        Reach::Process { address, key } => {
            let verdict = by_kernel(work, target, *address, *key, connection);
            (verdict.unwrap_or(Verdict::Ask), 0)
        }
        _ => (Verdict::Ask, 0),
    }
}

/// A read that is over when it returns, of memory that is mapped; `false` if it is not, or not ours to read.
#[inline]
pub(super) fn peek(window: &Window, offset: u64, into: &Slice, connection: &Connection) -> bool {
    let Reach::Mapped(mapping) = window.reach() else { return false };
    let end = offset.checked_add(into.len() as u64);
    if end.is_none_or(|end| end > window.len()) || !window.rights().read {
        return false;
    }
    connection.control_block.touch(mapping.grant());
    let mut granted = mapping.is_granted();
    if granted {
        mapping.read(std::slice::from_ref(into), offset as usize);
        // Its owner waits for us before it uses the memory otherwise, but not for ever.
        fence(Ordering::Acquire);
        granted = mapping.is_granted();
    }
    connection.control_block.let_go();
    granted
}

/// A write that is over when it returns, and a word behind it that says so; `false` as for [`peek`].
#[inline]
pub(super) fn poke(
    window: &Window,
    offset: u64,
    bytes: &[u8],
    (at, word): (u64, u64),
    connection: &Connection,
) -> bool {
    let Reach::Mapped(mapping) = window.reach() else { return false };
    let within =
        |from: u64, length: u64| from.checked_add(length).is_some_and(|end| end <= window.len());
    let fits = within(offset, bytes.len() as u64) && within(at, 8) && at.is_multiple_of(8);
    if !fits || !window.rights().write {
        return false;
    }
    connection.control_block.touch(mapping.grant());
    let granted = mapping.is_granted();
    if granted {
        mapping.write_bytes(bytes, offset as usize);
        mapping.number(at as usize).store(word, Ordering::Release);
    }
    connection.control_block.let_go();
    granted
}

#[inline]
fn mapped(work: &Work, target: &Target, mapping: &PeerMapping) -> (Verdict, u64) {
    if !permitted(work, target) {
        return (Verdict::Failed(Failure::Access), 0);
    }
    let at = target.offset as usize;
    match work {
        Work::Write { from, .. } => mapping.write(from.as_slice(), at),
        Work::Read { into, .. } => mapping.read(into.as_slice(), at),
        Work::FetchAdd { old, add, .. } => {
            let before = mapping.number(at).fetch_add(*add, Ordering::AcqRel);
            old.region().memory().store(old.offset(), before);
            return (Verdict::Old, before);
        }
        Work::CompareSwap { old, expect, new, .. } => {
            let number = mapping.number(at);
            let swapped =
                number.compare_exchange(*expect, *new, Ordering::AcqRel, Ordering::Acquire);
            let before = swapped.unwrap_or_else(|there| there);
            old.region().memory().store(old.offset(), before);
            return (Verdict::Old, before);
        }
        Work::Send { .. } | Work::Receive { .. } => {}
    }
    (Verdict::Placed, 0)
}

/// Why a grant does not hold.
#[cold]
fn not_granted(connection: &Connection) -> Failure {
    if connection.peer.has_ended() { Failure::PeerGone } else { Failure::Access }
}

/// Bounds, rights and alignment, by the grant.
#[inline]
fn permitted(work: &Work, target: &Target) -> bool {
    let wanted = match work {
        Work::Write { .. } => Rights { write: true, ..Rights::NONE },
        Work::Read { .. } => Rights { read: true, ..Rights::NONE },
        _ => Rights { atomic: true, ..Rights::NONE },
    };
    let aligned = !wanted.atomic || target.offset.is_multiple_of(8);
    aligned && target.holds(work.total()) && target.window.rights().allow(wanted)
}

/// A large write or read of memory that cannot be mapped uses the kernel; the peer is asked for the
/// rest (`None`), and wherever the kernel refuses.
fn by_kernel(
    work: &Work,
    target: &Target,
    address: u64,
    key: u128,
    connection: &Connection,
) -> Option<Verdict> {
    let (slices, direction) = match work {
        Work::Write { from, imm: None, .. } => (from.as_slice(), Direction::Write),
        Work::Read { into, .. } => (into.as_slice(), Direction::Read),
        _ => return None,
    };
    let process = connection.process.as_ref().filter(|_| work.total() >= MIN_BY_KERNEL)?;
    if !permitted(work, target) {
        return Some(Verdict::Failed(Failure::Access));
    }
    let grant = GrantId::of(key)?;
    connection.control_block.touch(grant);
    let granted = connection.peer.holds(grant);
    let place = address.wrapping_add(target.offset);
    let copied = granted.then(|| process.copy(slices, place, direction));
    connection.control_block.let_go();
    match copied {
        None => Some(Verdict::Failed(not_granted(connection))),
        Some(Ok(())) => Some(Verdict::Placed),
        Some(Err(_)) => None,
    }
}

/// From here on a call of the kernel's is cheaper than a copy more.
const MIN_BY_KERNEL: usize = 4096;
