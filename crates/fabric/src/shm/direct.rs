//! Operations without the peer: by loads and stores, and by the kernel.

use std::sync::atomic::{Ordering, fence};

use super::lane::Connection;
use super::process::Direction;
use crate::lane::MappedInto;
use crate::op::{Failure, Work};
use crate::region::Rights;
use crate::remote::{AccessMethod, Target, Window};
use crate::segment::control_block::GrantId;
use crate::segment::mapping::PeerMapping;

/// The result of a direct operation. Small, so that it is returned in registers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DirectResult {
    Placed,
    /// An atomic operation; the old value is returned with it.
    Old,
    /// Not possible: the engine must send a request to the peer.
    UseEngine,
    Failed(Failure),
}

/// Tries an operation by loads and stores, or by the kernel.
#[inline]
pub(super) fn direct(work: &Work, connection: &Connection) -> (DirectResult, u64) {
    let Some(target) = work.target() else { return (DirectResult::UseEngine, 0) };
    match target.window.access_method() {
        AccessMethod::Mapped(mapping) => {
            // The owner waits for the end of the access before it releases the memory; see `Revoker`.
            connection.control_block.start_access(mapping.grant());
            let done = match mapping.is_granted() {
                true => mapped(work, target, mapping),
                false => (DirectResult::Failed(not_granted(connection)), 0),
            };
            connection.control_block.end_access();
            done
        }
        AccessMethod::Process { address, key } => {
            let result = by_kernel(work, target, *address, *key, connection);
            (result.unwrap_or(DirectResult::UseEngine), 0)
        }
        _ => (DirectResult::UseEngine, 0),
    }
}

/// A synchronous read of mapped memory; `false` if it is not mapped, or not readable.
#[inline]
pub(super) fn read_mapped(
    window: &Window,
    offset: u64,
    into: MappedInto<'_>,
    connection: &Connection,
) -> bool {
    let AccessMethod::Mapped(mapping) = window.access_method() else { return false };
    let end = offset.checked_add(into.len() as u64);
    if end.is_none_or(|end| end > window.len()) || !window.rights().read {
        return false;
    }
    connection.control_block.start_access(mapping.grant());
    let mut granted = mapping.is_granted();
    if granted {
        match into {
            MappedInto::Slice(slice) => mapping.read(std::slice::from_ref(slice), offset as usize),
            MappedInto::Bytes(bytes) => mapping.read_bytes(bytes, offset as usize),
        }
        // The owner waits for us before it reuses the memory, but with a timeout.
        fence(Ordering::Acquire);
        granted = mapping.is_granted();
    }
    connection.control_block.end_access();
    granted
}

/// A synchronous write, followed by a word that publishes it; `false` as for [`read_mapped`].
#[inline]
pub(super) fn write_mapped(
    window: &Window,
    offset: u64,
    bytes: &[u8],
    (at, word): (u64, u64),
    connection: &Connection,
) -> bool {
    let AccessMethod::Mapped(mapping) = window.access_method() else { return false };
    let within =
        |from: u64, length: u64| from.checked_add(length).is_some_and(|end| end <= window.len());
    let fits = within(offset, bytes.len() as u64) && within(at, 8) && at.is_multiple_of(8);
    if !fits || !window.rights().write {
        return false;
    }
    connection.control_block.start_access(mapping.grant());
    let granted = mapping.is_granted();
    if granted {
        mapping.write_bytes(bytes, offset as usize);
        mapping.word64(at as usize).store(word, Ordering::Release);
    }
    connection.control_block.end_access();
    granted
}

#[inline]
fn mapped(work: &Work, target: &Target, mapping: &PeerMapping) -> (DirectResult, u64) {
    if !permitted(work, target) {
        return (DirectResult::Failed(Failure::Access), 0);
    }
    let at = target.offset as usize;
    match work {
        Work::Write { from, .. } => mapping.write(from.as_slice(), at),
        Work::Read { into, .. } => mapping.read(into.as_slice(), at),
        Work::FetchAdd { old, add, .. } => {
            let before = mapping.word64(at).fetch_add(*add, Ordering::AcqRel);
            old.region().memory().store(old.offset(), before);
            return (DirectResult::Old, before);
        }
        Work::CompareSwap { old, expect, new, .. } => {
            let word = mapping.word64(at);
            let swapped = word.compare_exchange(*expect, *new, Ordering::AcqRel, Ordering::Acquire);
            let before = swapped.unwrap_or_else(|actual| actual);
            old.region().memory().store(old.offset(), before);
            return (DirectResult::Old, before);
        }
        Work::Send { .. } | Work::Receive { .. } => {}
    }
    (DirectResult::Placed, 0)
}

/// Why a grant is not valid.
#[cold]
fn not_granted(connection: &Connection) -> Failure {
    if connection.peer.has_ended() { Failure::PeerGone } else { Failure::Access }
}

/// Checks bounds, rights and alignment.
#[inline]
fn permitted(work: &Work, target: &Target) -> bool {
    let wanted = match work {
        Work::Write { .. } => Rights { write: true, ..Rights::NONE },
        Work::Read { .. } => Rights { read: true, ..Rights::NONE },
        _ => Rights { atomic: true, ..Rights::NONE },
    };
    let aligned = !wanted.atomic || target.offset.is_multiple_of(8);
    aligned && target.contains(work.total()) && target.window.rights().allow(wanted)
}

/// A large write or read of memory that cannot be mapped, by the kernel; `None` for other operations, and if
/// the kernel refuses: then the peer must execute it.
fn by_kernel(
    work: &Work,
    target: &Target,
    address: u64,
    key: u128,
    connection: &Connection,
) -> Option<DirectResult> {
    let (slices, direction) = match work {
        Work::Write { from, imm: None, .. } => (from.as_slice(), Direction::Write),
        Work::Read { into, .. } => (into.as_slice(), Direction::Read),
        _ => return None,
    };
    let process = connection.process.as_ref().filter(|_| work.total() >= MIN_KERNEL_COPY_BYTES)?;
    if !permitted(work, target) {
        return Some(DirectResult::Failed(Failure::Access));
    }
    let grant = GrantId::of(key)?;
    connection.control_block.start_access(grant);
    let granted = connection.peer.is_granted(grant);
    let address = address.wrapping_add(target.offset);
    let copied = granted.then(|| process.copy(slices, address, direction));
    connection.control_block.end_access();
    match copied {
        None => Some(DirectResult::Failed(not_granted(connection))),
        Some(Ok(())) => Some(DirectResult::Placed),
        Some(Err(_)) => None,
    }
}

/// From this size on a system call is cheaper than an additional copy.
const MIN_KERNEL_COPY_BYTES: usize = 4096;
