//! Huge pages.

use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "hugepages",
    title: "reserved huge pages are free",
    why: "With huge pages a NIC has fewer translation cache misses. Programs that request reserved \
          huge pages fail, or fall back to small ones, when other programs use all of them.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let known = input.node.host.huge_pages.iter().filter_map(|pages| {
        let (total, free) = (*pages.total.value()?, *pages.free.value()?);
        let size = format!("{} KiB", pages.size_bytes >> 10);
        let folder = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", pages.size_bytes >> 10);
        let evidence = Evidence::new(folder, format!("{total} total, {free} free"));
        Some(match (total, free) {
            (0, _) => Finding::ok("host", format!("no huge pages of {size} are reserved"))
                .evidence(evidence),
            (_, 0) => Finding::note("host", format!("all {total} huge pages of {size} are in use"))
                .evidence(evidence)
                .fix("sysctl vm.nr_hugepages=NUMBER, or stop programs that use them."),
            _ => Finding::ok("host", format!("{free} of {total} huge pages of {size} are free"))
                .evidence(evidence),
        })
    });
    known.collect()
}
