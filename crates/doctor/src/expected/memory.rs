//! Huge pages, and memory of other NUMA nodes.

use node::Host;

/// Bytes of the huge pages that memory pools use.
pub const HUGE_PAGE: u64 = 2 << 20;

/// The number of pages of [`HUGE_PAGE`] a host should have: enough for the store's default pool, and at most an eighth of
/// the memory. `None` if the size of the memory is not known.
pub fn huge_pages(host: &Host) -> Option<u64> {
    Some(POOL_BYTES.min(host.memory_bytes? / 8) / HUGE_PAGE)
}

/// The expected `vm.zone_reclaim_mode`. With others, the kernel reclaims memory of a full NUMA node before it uses another
/// one, and programs wait.
pub const ZONE_RECLAIM_MODE: u64 = 0;

/// The store's default pool.
const POOL_BYTES: u64 = 1 << 30;
