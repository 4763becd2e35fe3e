//! Large pages for memory pools: the NIC keeps fewer addresses, and registering takes less time.

use super::{Ask, kept};
use crate::change::{Change, Plan};

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) {
    let host = &ask.node.host;
    let pages = host.huge_pages.iter().find(|pages| pages.size_bytes == PAGE);
    let (Some(pages), Some(memory)) = (pages, host.memory_bytes) else { return };
    let wanted = POOL.min(memory / 8) / PAGE;
    let Some(now) = pages.total.value().filter(|now| **now < wanted) else { return };
    let why = format!(
        "a pool of {} MiB needs {wanted} pages of 2 MiB, and there are {now}; other programs cannot have that memory",
        (wanted * PAGE) >> 20
    );
    let value = wanted.to_string();
    plan.step("hugepages", why, Change::value("/proc/sys/vm/nr_hugepages", &*value), true);
    plan.step("hugepages", kept::WHY, kept::sysctl("vm.nr_hugepages", &value), true);
}

const PAGE: u64 = 2 << 20;
/// The store's pool as it comes.
const POOL: u64 = 1 << 30;
