//! Huge pages for memory pools: the NIC needs fewer translations, and registering takes less time.

use doctor::expected::memory::{HUGE_PAGE, huge_pages};

use super::{Context, persistent};
use crate::{Change, Plan};

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) {
    let host = &context.node.host;
    let pages = host.huge_pages.iter().find(|pages| pages.size_bytes == HUGE_PAGE);
    let (Some(pages), Some(wanted)) = (pages, huge_pages(host)) else { return };
    let Some(now) = pages.total.value().filter(|now| **now < wanted) else { return };
    let why = format!(
        "a pool of {} MiB needs {wanted} pages of 2 MiB, there are {now}; other programs cannot use this memory",
        (wanted * HUGE_PAGE) >> 20
    );
    let value = wanted.to_string();
    if default_size(context) != Some(HUGE_PAGE) {
        // `vm.nr_hugepages` counts pages of another size here, and this number could be all of the memory.
        let command =
            format!("echo {value} > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
        plan.advise("hugepages", why, vec![command]);
        return;
    }
    plan.step("hugepages", why, Change::value("/proc/sys/vm/nr_hugepages", &*value), true);
    plan.step("hugepages", persistent::WHY, persistent::sysctl("vm.nr_hugepages", &value), true);
}

/// The page size that `vm.nr_hugepages` counts.
fn default_size(context: &Context<'_>) -> Option<u64> {
    let text = context.tree.text("/proc/meminfo").into_value().unwrap_or_default();
    let default = text.lines().find_map(|line| line.strip_prefix("Hugepagesize:"));
    match (default, context.node.host.huge_pages.as_slice()) {
        (Some(size), _) => size
            .trim()
            .strip_suffix(" kB")
            .and_then(|size| size.parse::<u64>().ok()?.checked_mul(1024)),
        (None, [only]) => Some(only.size_bytes),
        (None, _) => None,
    }
}
