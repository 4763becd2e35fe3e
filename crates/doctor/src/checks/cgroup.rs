//! RDMA limits of the cgroup.

use crate::{Check, CheckInput, Evidence, Finding, Severity};

pub(super) const CHECK: Check = Check {
    name: "cgroup",
    title: "the cgroup allows enough RDMA resources",
    why: "A cgroup may limit how often a container opens devices, and how many queue pairs, memory \
          regions and completion queues it creates. At the limit, creation fails with EAGAIN, and \
          programs rarely report that a limit is the cause.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let Some(text) = input.node.process.cgroup_rdma.value() else { return Vec::new() };
    let findings: Vec<Finding> = text.lines().filter_map(check_line).collect();
    if findings.is_empty() {
        return vec![Finding::ok("host", "the cgroup does not limit RDMA resources")];
    }
    findings
}

/// `mlx5_0 hca_handle=2 hca_object=2000`, or `max` for either.
fn check_line(line: &str) -> Option<Finding> {
    let (device, limits) = line.split_once(' ')?;
    let limit = |name: &str| -> Option<u64> {
        limits
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    let (handles, objects) = (limit("hca_handle"), limit("hca_object"));
    let severity = match (handles, objects) {
        (Some(0), _) | (_, Some(0)) => Severity::Problem,
        (_, Some(objects)) if objects < MIN_OBJECTS => Severity::Warning,
        (None, None) => return None,
        _ => Severity::Ok,
    };
    let text = |limit: Option<u64>| limit.map_or("max".to_owned(), |limit| limit.to_string());
    let summary =
        format!("the cgroup limits: hca_handle {}, hca_object {}", text(handles), text(objects));
    let finding = Finding::new(severity, device, summary).evidence(Evidence::new("rdma.max", line));
    Some(if severity == Severity::Ok {
        finding
    } else {
        finding.fix("Raise `rdma.max` of the cgroup, or remove it from the container's settings.")
    })
}

/// One process of a large job creates more objects.
const MIN_OBJECTS: u64 = 1000;
