//! RDMA resources that the control group allows.

use crate::{Case, Check, Evidence, Finding, Verdict};

pub(super) const CHECK: Check = Check {
    name: "cgroup",
    title: "the control group allows enough RDMA resources",
    why: "A control group may limit how many devices a container opens and how many queue pairs, \
          regions and queues it makes. At the limit, creating one fails with EAGAIN, which \
          programs report as anything but a limit.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let Some(text) = case.node.process.cgroup_rdma.value() else { return Vec::new() };
    let findings: Vec<Finding> = text.lines().filter_map(of_line).collect();
    if findings.is_empty() {
        return vec![Finding::ok("host", "no limit on RDMA resources")];
    }
    findings
}

/// `mlx5_0 hca_handle=2 hca_object=2000`, or `max` for either.
fn of_line(line: &str) -> Option<Finding> {
    let (device, limits) = line.split_once(' ')?;
    let limit = |name: &str| -> Option<u64> {
        limits
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    let (handles, objects) = (limit("hca_handle"), limit("hca_object"));
    let verdict = match (handles, objects) {
        (Some(0), _) | (_, Some(0)) => Verdict::Problem,
        (_, Some(objects)) if objects < FEW => Verdict::Warning,
        (None, None) => return None,
        _ => Verdict::Ok,
    };
    let word =
        |limit: Option<u64>| limit.map_or("any number of".to_owned(), |limit| limit.to_string());
    let summary = format!(
        "this control group may open it {} times and have {} objects",
        word(handles),
        word(objects)
    );
    let finding = Finding::new(verdict, device, summary).read(Evidence::new("rdma.max", line));
    Some(if verdict == Verdict::Ok {
        finding
    } else {
        finding.fix(
            "Raise `rdma.max` of the control group, or leave it out of the container's settings.",
        )
    })
}

/// One process of a large job makes more.
const FEW: u64 = 1000;
