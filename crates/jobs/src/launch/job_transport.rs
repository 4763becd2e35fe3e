//! One transport for the whole job: RDMA on every host and of one kind, or TCP on every host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use node::{LinkLayer, Port};

use super::job::Job;
use super::planned_launch::Refusal;
use super::site::Site;
use crate::job::{self, Mode, Plan, Request, Verdict};

/// What holds for all hosts, and each host's own.
#[derive(Debug)]
pub(super) struct Settled {
    /// `Mode::Rdma` or `Mode::Tcp`.
    pub(super) mode: Mode,
    /// What the ports are, where RDMA is used.
    pub(super) kind: Option<FabricKind>,
    /// One for each host, in their order.
    pub(super) plans: Vec<Plan>,
    pub(super) notes: Vec<String>,
}

/// What ports speak: those of different kinds cannot talk to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FabricKind {
    InfiniBand,
    Roce,
    /// RoCE by the kernel, without a card.
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

    fn can_talk_to(self, other: FabricKind) -> bool {
        let is_roce = |kind| matches!(kind, FabricKind::Roce | FabricKind::SoftRoce);
        self == other || (is_roce(self) && is_roce(other))
    }
}

/// Works it out; with `Mode::Rdma` every host must be able to, with `Mode::Auto` one that cannot sends all over TCP.
pub(super) fn settle(job: &Job, sites: &[Site]) -> Result<Settled, Refusal> {
    let mut plans = each(job, sites, job.mode)?;
    if job.mode == Mode::Tcp {
        return Ok(Settled { mode: Mode::Tcp, kind: None, plans, notes: Vec::new() });
    }
    let obstacle = without_rdma(sites, &plans).or_else(|| misfit(sites, &plans));
    let Some(obstacle) = obstacle else {
        let kind = kind(&sites[0], &plans[0]);
        let notes = rates(sites, &plans);
        return Ok(Settled { mode: Mode::Rdma, kind, plans, notes });
    };
    if job.mode == Mode::Rdma {
        return Err(with_fix(obstacle));
    }
    plans = each(job, sites, Mode::Tcp)?;
    let notes = vec![format!("the whole job goes over TCP: {obstacle}")];
    Ok(Settled { mode: Mode::Tcp, kind: None, plans, notes })
}

impl Settled {
    /// All goes over TCP after all, or not at all.
    pub(super) fn without_rdma(
        self,
        job: &Job,
        sites: &[Site],
        why: Refusal,
    ) -> Result<Self, Refusal> {
        if job.mode == Mode::Rdma {
            return Err(with_fix(why));
        }
        let mut notes = self.notes;
        notes.push(format!("the whole job goes over TCP: {why}"));
        Ok(Settled { mode: Mode::Tcp, kind: None, plans: each(job, sites, Mode::Tcp)?, notes })
    }
}

fn with_fix(mut refusal: Refusal) -> Refusal {
    refusal.reason.push_str("; --mode tcp goes without RDMA");
    refusal
}

fn each(job: &Job, sites: &[Site], mode: Mode) -> Result<Vec<Plan>, Refusal> {
    let plan = |(at, site): (usize, &Site)| {
        let mut environment: BTreeMap<String, String> = site.tree.environment().clone();
        environment.extend(job.environment.iter().cloned());
        let request =
            Request { environment: &environment, mode, peers: &peers(sites, at), nccl: job.nccl };
        job::plan(site.node, site.tree, &request).map_err(|refused| Refusal {
            host: Some(site.name.to_owned()),
            reason: format!("{}{}", refused.reason, dropped(&refused.devices)),
        })
    };
    sites.iter().enumerate().map(plan).collect()
}

/// The other hosts' addresses, on the fabric where they are known.
fn peers(sites: &[Site], this: usize) -> Vec<IpAddr> {
    let others = sites.iter().enumerate().filter(|(at, _)| *at != this);
    others.filter_map(|(_, site)| site.data_address()).collect()
}

/// What became of devices that are not used.
fn dropped(devices: &[job::Judged]) -> String {
    let told: Vec<String> = devices
        .iter()
        .filter(|device| device.verdict == Verdict::Dropped)
        .take(MAX_TOLD)
        .map(|device| {
            let port = device.port.map(|port| format!(":{port}")).unwrap_or_default();
            format!("{}{port}: {}", device.device, device.why)
        })
        .collect();
    if told.is_empty() { String::new() } else { format!(" ({})", told.join("; ")) }
}

fn without_rdma(sites: &[Site], plans: &[Plan]) -> Option<Refusal> {
    let (site, plan) = sites.iter().zip(plans).find(|(_, plan)| plan.mode == Mode::Tcp)?;
    let reason = format!("no RDMA device can be used there{}", dropped(&plan.devices));
    Some(Refusal { host: Some(site.name.to_owned()), reason })
}

/// The first host that does not fit the first of all: another kind of port, another kind of address.
fn misfit(sites: &[Site], plans: &[Plan]) -> Option<Refusal> {
    let (first, rest) = sites.split_first()?;
    let kind_of_first = kind(first, &plans[0]);
    for (site, plan) in rest.iter().zip(&plans[1..]) {
        let reason = match (kind_of_first, kind(site, plan)) {
            (Some(one), Some(other)) if !one.can_talk_to(other) => Some(format!(
                "{} there, {} on {}: they cannot talk",
                other.name(),
                one.name(),
                first.name
            )),
            _ => gids_differ(&plans[0], plan, first.name),
        };
        if let Some(reason) = reason {
            return Some(Refusal { host: Some(site.name.to_owned()), reason });
        }
    }
    None
}

/// RoCE: family and version of the addresses must be the same on all hosts; an index need not be.
fn gids_differ(one: &Plan, other: &Plan, first: &str) -> Option<String> {
    let ((family, version), (other_family, other_version)) = (one.gids?, other.gids?);
    let (what, there, here) = match family == other_family {
        false => {
            ("the family of its GIDs' addresses is", other_family.to_owned(), family.to_owned())
        }
        true if version == other_version => return None,
        true => ("its GIDs are for RoCE version", other_version.to_string(), version.to_string()),
    };
    Some(format!(
        "{what} {there}, on {first} {here}: connections would time out; give both hosts addresses of one kind (`wirelane \
         devices` shows the GIDs)"
    ))
}

/// Hosts of different speed work, at the slowest's.
fn rates(sites: &[Site], plans: &[Plan]) -> Vec<String> {
    let total = |site: &Site, plan: &Plan| -> f64 {
        ports(site, plan).filter_map(|(_, port)| port.rate.value()).map(|rate| rate.gbps()).sum()
    };
    let totals: Vec<f64> = sites.iter().zip(plans).map(|(site, plan)| total(site, plan)).collect();
    let most = totals.iter().copied().fold(0.0, f64::max);
    let slow = sites.iter().zip(&totals).filter(|(_, total)| **total < most);
    slow.take(MAX_TOLD)
        .map(|(site, total)| {
            format!(
                "{} has {total} Gb/s, others {most}: the job goes at the slowest's pace",
                site.name
            )
        })
        .collect()
}

/// The ports that the job may use on a host.
pub(super) fn ports<'s>(
    site: &'s Site,
    plan: &'s Plan,
) -> impl Iterator<Item = (&'s node::Device, &'s Port)> {
    let kept = plan.devices.iter().filter(|device| device.verdict == Verdict::Kept);
    kept.filter_map(|kept| {
        let device = site.node.device(&kept.device)?;
        let port = device.ports.iter().find(|port| Some(port.number) == kept.port)?;
        Some((device, port))
    })
}

/// A plan's ports are all of one kind.
fn kind(site: &Site, plan: &Plan) -> Option<FabricKind> {
    let (device, port) = ports(site, plan).next()?;
    let driver = device.driver.as_deref();
    Some(match port.link_layer.value()? {
        LinkLayer::InfiniBand if driver == Some("hfi1") => FabricKind::OmniPath,
        LinkLayer::InfiniBand => FabricKind::InfiniBand,
        LinkLayer::Ethernet if driver == Some("rxe") => FabricKind::SoftRoce,
        LinkLayer::Ethernet => FabricKind::Roce,
        LinkLayer::Unknown => FabricKind::Efa,
    })
}

/// So many devices or hosts are named in one message.
const MAX_TOLD: usize = 3;
