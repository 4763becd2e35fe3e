//! One transport for the whole job: RDMA on every host and of one kind, or TCP on every host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use node::{LinkLayer, Port};

use super::job::Job;
use super::job_host::JobHost;
use super::planned_launch::Refusal;
use crate::environment::{self, EnvironmentPlan, Mode, Request, Verdict};

/// The transport of a job, with each host's plan.
#[derive(Debug)]
pub(super) struct JobTransport {
    /// `Mode::Rdma` or `Mode::Tcp`.
    pub(super) mode: Mode,
    /// The kind of fabric, if RDMA is used.
    pub(super) kind: Option<FabricKind>,
    /// One for each host, in their order.
    pub(super) plans: Vec<EnvironmentPlan>,
    pub(super) notes: Vec<String>,
}

/// A kind of fabric: ports of different kinds cannot connect to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FabricKind {
    InfiniBand,
    Roce,
    /// RoCE in the kernel, without a NIC.
    SoftRoce,
    OmniPath,
    Efa,
}

impl FabricKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            FabricKind::InfiniBand => "InfiniBand",
            FabricKind::Roce => "RoCE",
            FabricKind::SoftRoce => "soft-RoCE",
            FabricKind::OmniPath => "Omni-Path",
            FabricKind::Efa => "EFA",
        }
    }

    fn can_connect_to(self, other: FabricKind) -> bool {
        let is_roce = |kind| matches!(kind, FabricKind::Roce | FabricKind::SoftRoce);
        self == other || (is_roce(self) && is_roce(other))
    }
}

/// Chooses the transport. With `Mode::Rdma` every host must support RDMA; with `Mode::Auto` one host without it makes
/// the whole job use TCP.
pub(super) fn choose(job: &Job, job_hosts: &[JobHost]) -> Result<JobTransport, Refusal> {
    let mut plans = plan_hosts(job, job_hosts, job.mode)?;
    if job.mode == Mode::Tcp {
        return Ok(JobTransport { mode: Mode::Tcp, kind: None, plans, notes: Vec::new() });
    }
    let refusal = without_rdma(job_hosts, &plans).or_else(|| mismatch(job_hosts, &plans));
    let Some(refusal) = refusal else {
        let kind = kind(&job_hosts[0], &plans[0]);
        let notes = rates(job_hosts, &plans);
        return Ok(JobTransport { mode: Mode::Rdma, kind, plans, notes });
    };
    if job.mode == Mode::Rdma {
        return Err(with_fix(refusal));
    }
    plans = plan_hosts(job, job_hosts, Mode::Tcp)?;
    let notes = vec![format!("the whole job uses TCP: {refusal}")];
    Ok(JobTransport { mode: Mode::Tcp, kind: None, plans, notes })
}

impl JobTransport {
    /// Changes the job to TCP; an error if RDMA is required.
    pub(super) fn without_rdma(
        self,
        job: &Job,
        job_hosts: &[JobHost],
        why: Refusal,
    ) -> Result<Self, Refusal> {
        if job.mode == Mode::Rdma {
            return Err(with_fix(why));
        }
        let mut notes = self.notes;
        notes.push(format!("the whole job uses TCP: {why}"));
        Ok(JobTransport {
            mode: Mode::Tcp,
            kind: None,
            plans: plan_hosts(job, job_hosts, Mode::Tcp)?,
            notes,
        })
    }
}

fn with_fix(mut refusal: Refusal) -> Refusal {
    refusal.reason.push_str("; --mode tcp works without RDMA");
    refusal
}

fn plan_hosts(
    job: &Job,
    job_hosts: &[JobHost],
    mode: Mode,
) -> Result<Vec<EnvironmentPlan>, Refusal> {
    let plan = |(at, job_host): (usize, &JobHost)| {
        let mut environment: BTreeMap<String, String> = job_host.tree.environment().clone();
        environment.extend(job.environment.iter().cloned());
        let request = Request {
            environment: &environment,
            mode,
            peers: &peers(job_hosts, at),
            peers_option: if job_hosts.len() > 1 { "`fabric` in a YAML --hostfile" } else { "" },
            nccl: job.nccl,
        };
        environment::plan(job_host.node, job_host.tree, &request).map_err(|refused| Refusal {
            host: Some(job_host.name.to_owned()),
            reason: format!("{}{}", refused.reason, dropped(&refused.devices)),
        })
    };
    job_hosts.iter().enumerate().map(plan).collect()
}

/// The other hosts' addresses, on the fabric if known.
fn peers(job_hosts: &[JobHost], this: usize) -> Vec<IpAddr> {
    let others = job_hosts.iter().enumerate().filter(|(at, _)| *at != this);
    others.filter_map(|(_, job_host)| job_host.data_address()).collect()
}

/// The dropped devices, for a message.
fn dropped(devices: &[environment::DeviceVerdict]) -> String {
    let listed: Vec<String> = devices
        .iter()
        .filter(|device| device.verdict == Verdict::Dropped)
        .take(MAX_LISTED)
        .map(|device| {
            let port = device.port.map(|port| format!(":{port}")).unwrap_or_default();
            format!("{}{port}: {}", device.device, device.why)
        })
        .collect();
    if listed.is_empty() { String::new() } else { format!(" ({})", listed.join("; ")) }
}

fn without_rdma(job_hosts: &[JobHost], plans: &[EnvironmentPlan]) -> Option<Refusal> {
    let (job_host, plan) = job_hosts.iter().zip(plans).find(|(_, plan)| plan.mode == Mode::Tcp)?;
    let reason = format!("no RDMA device can be used there{}", dropped(&plan.devices));
    Some(Refusal { host: Some(job_host.name.to_owned()), reason })
}

/// The first host that differs from the first one in the kind of port or address.
fn mismatch(job_hosts: &[JobHost], plans: &[EnvironmentPlan]) -> Option<Refusal> {
    let (first, rest) = job_hosts.split_first()?;
    let kind_of_first = kind(first, &plans[0]);
    for (job_host, plan) in rest.iter().zip(&plans[1..]) {
        let reason = match (kind_of_first, kind(job_host, plan)) {
            (Some(one), Some(other)) if !one.can_connect_to(other) => Some(format!(
                "{} there, {} on {}: they cannot connect",
                other.name(),
                one.name(),
                first.name
            )),
            _ => gids_differ(&plans[0], plan, first.name),
        };
        if let Some(reason) = reason {
            return Some(Refusal { host: Some(job_host.name.to_owned()), reason });
        }
    }
    None
}

/// RoCE: family and version of the addresses must be the same on all hosts; an index need not be.
fn gids_differ(one: &EnvironmentPlan, other: &EnvironmentPlan, first: &str) -> Option<String> {
    let ((family, version), (other_family, other_version)) = (one.gids?, other.gids?);
    let (what, there, here) = match family == other_family {
        false => ("the address family of its GIDs is", other_family.to_owned(), family.to_owned()),
        true if version == other_version => return None,
        true => ("its GIDs are for RoCE version", other_version.to_string(), version.to_string()),
    };
    Some(format!(
        "{what} {there}, on {first} {here}: connections would time out; give both hosts addresses of one kind (`wirelane \
         devices` lists the GIDs)"
    ))
}

/// Notes on slower hosts: the job works, at the rate of the slowest.
fn rates(job_hosts: &[JobHost], plans: &[EnvironmentPlan]) -> Vec<String> {
    let total = |job_host: &JobHost, plan: &EnvironmentPlan| -> f64 {
        ports(job_host, plan)
            .filter_map(|(_, port)| port.rate.value())
            .map(|rate| rate.gbps())
            .sum()
    };
    let totals: Vec<f64> =
        job_hosts.iter().zip(plans).map(|(job_host, plan)| total(job_host, plan)).collect();
    let fastest = totals.iter().copied().fold(0.0, f64::max);
    let slow = job_hosts.iter().zip(&totals).filter(|(_, total)| **total < fastest);
    slow.take(MAX_LISTED)
        .map(|(job_host, total)| {
            format!(
                "{} has {total} Gb/s, others {fastest}: the slowest host limits the job",
                job_host.name
            )
        })
        .collect()
}

/// The ports that the job may use on a host.
pub(super) fn ports<'s>(
    job_host: &'s JobHost,
    plan: &'s EnvironmentPlan,
) -> impl Iterator<Item = (&'s node::Device, &'s Port)> {
    let kept = plan.devices.iter().filter(|device| device.verdict == Verdict::Kept);
    kept.filter_map(|kept| {
        let device = job_host.node.device(&kept.device)?;
        let port = device.ports.iter().find(|port| Some(port.number) == kept.port)?;
        Some((device, port))
    })
}

/// The kind of a plan's ports, which is the same for all.
fn kind(job_host: &JobHost, plan: &EnvironmentPlan) -> Option<FabricKind> {
    let (device, port) = ports(job_host, plan).next()?;
    let driver = device.driver.as_deref();
    Some(match port.link_layer.value()? {
        LinkLayer::InfiniBand if driver == Some("hfi1") => FabricKind::OmniPath,
        LinkLayer::InfiniBand => FabricKind::InfiniBand,
        LinkLayer::Ethernet if driver == Some("rxe") => FabricKind::SoftRoce,
        LinkLayer::Ethernet => FabricKind::Roce,
        LinkLayer::Unknown => FabricKind::Efa,
    })
}

/// Devices or hosts listed in one message.
const MAX_LISTED: usize = 3;
