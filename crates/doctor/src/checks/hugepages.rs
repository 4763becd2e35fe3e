//! Large pages, which cards translate faster.

use crate::{Case, Check, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "hugepages",
    title: "large pages that were set aside can still be had",
    why: "A card that finds addresses in a few large pages misses its cache less. Programs that \
          ask for reserved large pages fail, or fall back to small ones, when others hold all of \
          them.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let known = case.node.host.huge_pages.iter().filter_map(|pages| {
        let (total, free) = (*pages.total.value()?, *pages.free.value()?);
        let size = format!("{} KiB", pages.size_bytes >> 10);
        let folder = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", pages.size_bytes >> 10);
        let evidence = Evidence::new(folder, format!("{total} in all, {free} free"));
        Some(match (total, free) {
            (0, _) => {
                Finding::ok("host", format!("no pages of {size} are set aside")).read(evidence)
            }
            (_, 0) => Finding::note("host", format!("all {total} pages of {size} are taken"))
                .read(evidence)
                .fix("sysctl vm.nr_hugepages=NUMBER, or end what holds them."),
            _ => Finding::ok("host", format!("{free} of {total} pages of {size} are free"))
                .read(evidence),
        })
    });
    known.collect()
}
