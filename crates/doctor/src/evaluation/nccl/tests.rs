//! Typical logs and machines, and their verdicts.

use std::path::Path;

use node::{Node, Tree};
use report::nccl::read;

use super::*;

macro_rules! log {
    ($name:literal) => {
        include_str!(concat!("../../../../report/tests/nccl/", $name))
    };
}

/// The verdict on a log with one of `node`'s trees.
fn verdict_on(log: &str, tree: &str, transferred: Option<&Transferred>) -> (Run, Verdict) {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees");
    let tree = Tree::at(&trees.join(format!("{tree}.json"))).expect("a tree");
    let node = Node::read(&tree);
    let input = CheckInput::new(&node, &tree);
    let mut run = read(log).expect("a log");
    let verdict = evaluate(&mut run, Some(&input), None, transferred);
    (run, verdict)
}

fn whats(verdict: &Verdict) -> Vec<&str> {
    verdict.bottlenecks.iter().map(|bottleneck| bottleneck.what.as_str()).collect()
}

/// Two nodes, two GPUs and two 40 Gb/s ports each, NVIDIA's closed modules and no nvidia-peermem.
#[test]
fn the_40g_cluster_lacks_gpu_direct() {
    let (run, verdict) = verdict_on(log!("sample-2x2-dual-40g.log"), "cx3-gpus", None);
    assert!(
        verdict.summary.starts_with("no GPUDirect: bus bandwidth 3.66 GB/s peak, 3.27"),
        "{}",
        verdict.summary
    );
    let first = &verdict.bottlenecks[0];
    assert!(first.evidence.contains("no peer memory module"), "{first:?}");
    assert_eq!(first.fix.as_deref(), Some("modprobe nvidia-peermem"));
    assert_eq!(run.collective.link_gbps, Some(80.0));
    let efficiency = run.collective.efficiency.expect("ports are known");
    assert!((efficiency - 3.66 * 8.0 / 80.0).abs() < 1e-9, "{efficiency}");
    // Both ports share one slot, which is slower than the two links.
    assert!(
        verdict.bounds[0].what.starts_with("PCIe link of 0000:03:00.0"),
        "{:?}",
        verdict.bounds
    );
    assert!((55.0..56.0).contains(&verdict.expected_gbps.expect("a bound")));
    assert!(whats(&verdict)[1].contains("PCIe link"), "{:?}", whats(&verdict));
}

#[test]
fn without_a_node_the_log_shows_the_limit() {
    let mut run = read(log!("sample-mpirun-debug.log")).expect("a log");
    let verdict = evaluate(&mut run, None, None, None);
    assert!(
        verdict.summary.starts_with("no GPUDirect: bus bandwidth 3.66 GB/s"),
        "{}",
        verdict.summary
    );
    assert_eq!(verdict.bottlenecks[0].evidence, "3 channels use NICs without GDRDMA");
    assert_eq!((verdict.ratio, run.collective.efficiency), (None, None));
    assert!(
        verdict.notes.iter().any(|note| note.contains("pass a snapshot")),
        "{:?}",
        verdict.notes
    );
}

#[test]
fn tcp_comes_before_other_limits() {
    let (_, verdict) = verdict_on(log!("sample-tcp.log"), "cx3-gpus", None);
    assert_eq!(whats(&verdict)[0], "TCP, not RDMA");
    assert!(!whats(&verdict).contains(&"no GPUDirect"), "{:?}", whats(&verdict));
    let nothing =
        Transferred { bytes: [("mlx4_0 port 1".to_owned(), 4096)].into(), busiest_gbps: 0.0 };
    let (_, verdict) = verdict_on(log!("sample-2x2-dual-40g.log"), "cx3-gpus", Some(&nothing));
    assert_eq!(whats(&verdict)[0], "TCP, not RDMA", "by the ports' counters");
}

#[test]
fn an_idle_rail_is_found_by_transferred_bytes() {
    let bytes = [("mlx4_0 port 1".to_owned(), 80 << 30), ("mlx4_0 port 2".to_owned(), 1000)];
    let transferred = Transferred { bytes: bytes.into(), busiest_gbps: 29.0 };
    let (run, verdict) =
        verdict_on(log!("sample-2x2-dual-40g.log"), "cx3-gpus", Some(&transferred));
    assert_eq!(run.collective.link_gbps, Some(40.0));
    assert_eq!(verdict.reached_gbps, Some(29.0));
    assert_eq!(
        run.collective.efficiency,
        Some(29.0 / 40.0),
        "transferred bytes over the link rate"
    );
    assert!(whats(&verdict).contains(&"1 of 2 rails in use"), "{:?}", whats(&verdict));
}

#[test]
fn a_narrow_pcie_link_and_the_iommu_are_limits() {
    let (_, narrow) = verdict_on(log!("sample-2x2-dual-40g.log"), "pcie-narrow", None);
    assert!(
        whats(&narrow).iter().any(|what| what.contains("runs at 32 GT/s x8")),
        "{:?}",
        whats(&narrow)
    );
    let (_, iommu) = verdict_on(log!("sample-2x2-dual-40g.log"), "iommu", None);
    assert!(
        iommu.bottlenecks.iter().any(|bottleneck| bottleneck.evidence.contains("doctor iommu")),
        "{iommu:?}"
    );
    assert!(
        iommu.notes.iter().any(|note| note.contains("not one of the run's hosts")),
        "{iommu:?}"
    );
}

#[test]
fn more_than_the_link_rate_is_explained() {
    let text = log!("sample-2x2-dual-40g.log").replace("3.66", "15.2");
    let (run, verdict) = verdict_on(&text, "cx3-gpus", None);
    assert!(run.collective.efficiency.expect("known") > 1.5);
    assert!(verdict.ratio.expect("known") > 2.0 && verdict.bottlenecks.is_empty());
    assert!(
        verdict.notes.iter().any(|note| note.contains("NVLS") && note.contains("SHARP")),
        "{verdict:?}"
    );
}

#[test]
fn a_run_that_is_ok_has_no_bottleneck() {
    let text = log!("sample-2x2-dual-40g.log").replace("3.66", "6.60");
    let (_, verdict) = verdict_on(&text, "cx3-gpus", None);
    assert!(verdict.summary.ends_with(": OK") && verdict.bottlenecks.is_empty(), "{verdict:?}");
}

#[test]
fn on_one_node_there_is_no_expected_bandwidth() {
    let (run, verdict) = verdict_on(log!("sample-v2.10-alltoall.log"), "cx3-gpus", None);
    assert_eq!((verdict.ratio, run.collective.efficiency), (None, None));
    assert!(verdict.notes[0].contains("NVLink"), "{verdict:?}");
    let (_, one_rank) = verdict_on(log!("v2.19.6-check.log"), "cx3-gpus", None);
    assert!(one_rank.summary.contains("0 by definition"), "{}", one_rank.summary);
}

#[test]
fn a_failure_is_explained() {
    let (_, verdict) = verdict_on(log!("sample-failed.log"), "cx3-gpus", None);
    assert!(verdict.summary.starts_with("the run failed: "), "{}", verdict.summary);
    assert!(verdict.bottlenecks[0].evidence.contains("status=12"), "{verdict:?}");
    assert!(verdict.bottlenecks[0].fix.is_some());
    let (_, verdict) = verdict_on(log!("v2.19.6-fail.log"), "cx3-gpus", None);
    assert_eq!(
        verdict.summary,
        "the run failed: Invalid number of GPUs: 2 requested but only 1 were found."
    );
    let wrong = log!("sample-2x2-dual-40g.log").replace("values : 0 OK", "values : 12 FAILED");
    let (_, verdict) = verdict_on(&wrong, "cx3-gpus", None);
    assert!(verdict.summary.starts_with("the run failed: the results are wrong"), "{verdict:?}");
}

/// A BlueField for storage is active too, but a job on the GPUs does not use it.
#[test]
fn only_ports_of_the_job_count() {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees");
    let tree = Tree::at(&trees.join("ndr8.json")).expect("a tree");
    let node = Node::read(&tree);
    let input = CheckInput::new(&node, &tree);
    let all: Vec<String> = HostFacts::new(&input).ports.into_iter().map(|port| port.name).collect();
    let (job_ports, rate) = (&all[..2], 800.0);
    let mut run = read(log!("sample-2x2-dual-40g.log")).expect("a log");
    evaluate(&mut run, Some(&input), Some(job_ports), None);
    assert_eq!(run.collective.link_gbps, Some(rate));
    let bytes = all.iter().map(|port| (port.clone(), 1 << 30)).collect();
    let transferred = Transferred { bytes, busiest_gbps: 700.0 };
    evaluate(&mut run, Some(&input), Some(job_ports), Some(&transferred));
    assert_eq!(run.collective.link_gbps, Some(rate));
}
