//! Open MPI 4 and 5: one mpirun here, a part of its command line for each host.
//!
//! mpirun reaches the hosts by itself, by the same ssh. Each host is a context of its own (`mpirun … : …`), because the
//! script that starts a rank lies in another folder on each.

mod series;
mod transport;

use super::arguments::Arguments;
use super::job::Job;
use super::job_transport::{self, FabricKind, Settled};
use super::planned_launch::{Head, Launch, OnHost, Refusal};
use super::ranks;
use super::site::Site;
use super::tools::{Mpi, Tools};
use crate::job::{Mode, Version};
pub(super) use series::Series;
pub(super) use transport::MpiTransport;

/// Which of the two it is.
pub(super) fn series(mpi: &Mpi) -> Option<Series> {
    Series::of(mpi).ok()
}

pub(super) fn plan(
    job: &Job,
    here: &Tools,
    sites: &[Site],
    settled: Settled,
) -> Result<Launch, Refusal> {
    let (mpi, series) = installed(here, sites)?;
    sites.iter().try_for_each(check_target)?;
    let (transport, settled) = match settled.kind {
        None => (MpiTransport::Tcp, settled),
        Some(kind) => match MpiTransport::choose(kind, sites) {
            Ok(transport) => (transport, settled),
            Err(why) => (MpiTransport::Tcp, settled.without_rdma(job, sites, why)?),
        },
    };
    let hosts = ranks::on_hosts(job, sites, &settled, |at, site| {
        (job.command.to_vec(), own(&transport, sites, site, &settled.plans[at]))
    });
    let arguments = head(job, here, mpi, series, &transport, sites, &hosts);
    Ok(Launch {
        id: job.id.to_owned(),
        mode: settled.mode,
        way: format!("Open MPI {} {}", mpi.version.unwrap_or(Version(0, 0, 0)), transport.name()),
        head: Some(Head {
            command: arguments.words,
            environment: vec![("WIRELANE_JOB".to_owned(), job.id.to_owned())],
            tag: series.tag(),
        }),
        hosts,
        notes: ranks::notes(sites, &settled),
        explain: arguments.reasons,
    })
}

/// The Open MPI here, which must be on every host too.
fn installed<'t>(here: &'t Tools, sites: &[Site]) -> Result<(&'t Mpi, Series), Refusal> {
    let wrong = |reason: String| Refusal { host: None, reason };
    let mpi = here.mpi.as_ref().ok_or_else(|| {
        wrong("this machine has no mpirun in PATH, which starts the ranks: install Open MPI here and on every host (`wirelane setup mpi plan`)".to_owned())
    })?;
    let series = Series::of(mpi).map_err(wrong)?;
    for site in sites {
        let there = site.tools.mpi.as_ref().ok_or_else(|| {
            site.refuses(format!("it has no mpirun in PATH: install {}, as here", mpi.says))
        })?;
        let same = |version: Version| (version.0, version.1);
        if there.version.map(same) != mpi.version.map(same) {
            return Err(site.refuses(format!(
                "{} there ({}), {} here ({}): all must have the same version",
                there.says, there.mpirun, mpi.says, mpi.mpirun
            )));
        }
    }
    Ok((mpi, series))
}

/// `--host` has no place for a user or for colons.
fn check_target(site: &Site) -> Result<(), Refusal> {
    if !site.target.contains(['@', ':', ',', ' ']) {
        return Ok(());
    }
    Err(site.refuses(format!(
        "mpirun cannot be told `{}`: give the host a name in ~/.ssh/config (Host, HostName, User) and use that",
        site.target
    )))
}

fn head(
    job: &Job,
    here: &Tools,
    mpi: &Mpi,
    series: Series,
    transport: &MpiTransport,
    sites: &[Site],
    hosts: &[OnHost],
) -> Arguments {
    let mut arguments = Arguments::default();
    arguments.plain([place(mpi, sites)]);
    if here.uid == Some(0) {
        arguments.add(&["--allow-run-as-root"], "mpirun refuses root otherwise, and you are root");
    }
    series.remote(job, &mut arguments);
    transport.arguments(series, sites, &mut arguments);
    arguments.add(&["--map-by", "slot"], "ranks fill one host after the other, as they are listed");
    for (at, (site, host)) in sites.iter().zip(hosts).enumerate() {
        if at > 0 {
            arguments.plain([":"]);
        }
        let (ranks, host_slots) =
            (host.slots.to_string(), format!("{}:{}", site.target, host.slots));
        arguments.plain(["-n", &ranks, "--host", &host_slots]);
        arguments.plain(host.starter());
    }
    arguments
}

/// By its whole path mpirun looks for itself there too: right where it is in the same place on every host and no usual
/// one, such as a virtual environment.
fn place(mpi: &Mpi, sites: &[Site]) -> String {
    let there = |site: &Site| site.tools.mpi.as_ref().map(|mpi| mpi.mpirun.clone());
    let is_same = sites.iter().all(|site| there(site).as_ref() == Some(&mpi.mpirun));
    let is_usual = ["/usr/bin/mpirun", "/bin/mpirun"].contains(&mpi.mpirun.as_str());
    if is_same && !is_usual { mpi.mpirun.clone() } else { "mpirun".to_owned() }
}

/// Variables for libraries below Open MPI.
fn own(
    transport: &MpiTransport,
    sites: &[Site],
    site: &Site,
    plan: &crate::job::Plan,
) -> Vec<(String, String)> {
    let mut own = Vec::new();
    let mut set = |name: &str, value: String| own.push((name.to_owned(), value));
    if let MpiTransport::Ofi {
        kind: FabricKind::Roce | FabricKind::InfiniBand | FabricKind::SoftRoce,
    } = transport
    {
        let mut ports = job_transport::ports(site, plan);
        if let (Some((device, _)), None) = (ports.next(), ports.next()) {
            set("FI_VERBS_DEVICE_NAME", device.name.clone());
        }
    }
    if let MpiTransport::Ofi { kind: FabricKind::SoftRoce } = transport {
        // libfabric makes queues for 256 peers, and soft-RoCE's are shorter than that.
        let ranks: u32 = sites.iter().map(Site::ranks).sum();
        set("FI_UNIVERSE_SIZE", ranks.clamp(2, MAX_SOFT).to_string());
    }
    // Without a network that all are in, each host is given its own interface.
    if *transport == MpiTransport::Tcp
        && plan.mode == Mode::Tcp
        && transport::common_network(sites).is_none()
        && let Some((interface, _)) = site.interface()
    {
        set("OMPI_MCA_btl_tcp_if_include", interface.to_owned());
    }
    own
}

/// More peers than this, and a queue for them is longer than soft-RoCE has.
const MAX_SOFT: u32 = 32;
