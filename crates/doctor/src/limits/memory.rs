//! Huge pages, and memory of other NUMA nodes.

use node::Host;

/// Bytes of the huge pages that memory pools use.
pub const HUGE_PAGE: u64 = 2 << 20;

/// How many pages of [`HUGE_PAGE`] a host should have: for the store's default pool, and at most an eighth of the
/// memory. Not known, where the memory's size is not.
pub fn huge_pages(host: &Host) -> Option<u64> {
    Some(POOL.min(host.memory_bytes? / 8) / HUGE_PAGE)
}

/// `vm.zone_reclaim_mode` as it should be. Otherwise a full NUMA node is emptied before another is used, and programs
/// wait for it.
pub const ZONE_RECLAIM_MODE: u64 = 0;

/// The store's default pool.
const POOL: u64 = 1 << 30;
