//! Open MPI 4 and 5: one mpirun on this machine, with a part of its command line for each host.
//!
//! mpirun connects to the hosts itself, with the same ssh. Each host is a separate context (`mpirun … : …`), because the
//! script that starts a rank is in another folder on each.

mod series;
mod transport;

use super::arguments::Arguments;
use super::job::Job;
use super::job_host::JobHost;
use super::job_transport::{self, FabricKind, JobTransport};
use super::planned_launch::{HostLaunch, Launch, LocalLauncher, Refusal};
use super::ranks;
use super::tools::{Mpi, Tools};
use crate::environment::{Mode, Version};
pub(super) use series::Series;
pub(super) use transport::MpiTransport;

/// Open MPI 4 or 5.
pub(super) fn series(mpi: &Mpi) -> Option<Series> {
    Series::of(mpi).ok()
}

pub(super) fn plan(
    job: &Job,
    here: &Tools,
    job_hosts: &[JobHost],
    chosen: JobTransport,
) -> Result<Launch, Refusal> {
    let (mpi, series) = installed(here, job_hosts)?;
    job_hosts.iter().try_for_each(check_target)?;
    let (transport, chosen) = match chosen.kind {
        None => (MpiTransport::Tcp, chosen),
        Some(kind) => match MpiTransport::choose(kind, job_hosts) {
            Ok(transport) => (transport, chosen),
            Err(why) => (MpiTransport::Tcp, chosen.without_rdma(job, job_hosts, why)?),
        },
    };
    let hosts = ranks::on_hosts(job, job_hosts, &chosen, |at, job_host| {
        (
            job.command.to_vec(),
            library_variables(&transport, job_hosts, job_host, &chosen.plans[at]),
        )
    });
    let arguments = launcher_arguments(job, here, mpi, series, &transport, job_hosts, &hosts);
    Ok(Launch {
        id: job.id.to_owned(),
        mode: chosen.mode,
        method: format!(
            "Open MPI {} {}",
            mpi.version.unwrap_or(Version(0, 0, 0)),
            transport.name()
        ),
        launcher: Some(LocalLauncher {
            command: arguments.words,
            environment: vec![("WIRELANE_JOB".to_owned(), job.id.to_owned())],
            tag: series.tag(),
        }),
        hosts,
        notes: ranks::notes(job_hosts, &chosen),
        explain: arguments.reasons,
    })
}

/// The Open MPI of this machine, which must be on every host too.
fn installed<'t>(here: &'t Tools, job_hosts: &[JobHost]) -> Result<(&'t Mpi, Series), Refusal> {
    let wrong = |reason: String| Refusal { host: None, reason };
    let mpi = here.mpi.as_ref().ok_or_else(|| {
        wrong("this machine has no mpirun in PATH to start the ranks: install Open MPI here and on every host (`wirelane setup mpi plan`)".to_owned())
    })?;
    let series = Series::of(mpi).map_err(wrong)?;
    for job_host in job_hosts {
        let there = job_host.tools.mpi.as_ref().ok_or_else(|| {
            job_host
                .refusal(format!("it has no mpirun in PATH: install {}, as here", mpi.version_line))
        })?;
        let same = |version: Version| (version.0, version.1);
        if there.version.map(same) != mpi.version.map(same) {
            return Err(job_host.refusal(format!(
                "{} there ({}), {} here ({}): install the same version on all hosts",
                there.version_line, there.mpirun, mpi.version_line, mpi.mpirun
            )));
        }
    }
    Ok((mpi, series))
}

/// `--host` accepts neither a user nor colons.
fn check_target(job_host: &JobHost) -> Result<(), Refusal> {
    if !job_host.target.contains(['@', ':', ',', ' ']) {
        return Ok(());
    }
    Err(job_host.refusal(format!(
        "mpirun does not accept the host `{}`: give it a name in ~/.ssh/config (Host, HostName, User) and use that",
        job_host.target
    )))
}

fn launcher_arguments(
    job: &Job,
    here: &Tools,
    mpi: &Mpi,
    series: Series,
    transport: &MpiTransport,
    job_hosts: &[JobHost],
    hosts: &[HostLaunch],
) -> Arguments {
    let mut arguments = Arguments::default();
    arguments.plain([mpirun_path(mpi, job_hosts)]);
    if here.uid == Some(0) {
        arguments.add(&["--allow-run-as-root"], "you are root, and mpirun refuses root otherwise");
    }
    series.remote(job, &mut arguments);
    transport.arguments(series, job_hosts, &mut arguments);
    arguments.add(
        &["--map-by", "slot"],
        "ranks fill the hosts one after the other, in the order of the list",
    );
    for (at, (job_host, host)) in job_hosts.iter().zip(hosts).enumerate() {
        if at > 0 {
            arguments.plain([":"]);
        }
        let (ranks, host_slots) =
            (host.slots.to_string(), format!("{}:{}", job_host.target, host.slots));
        arguments.plain(["-n", &ranks, "--host", &host_slots]);
        arguments.plain(host.starter());
    }
    arguments
}

/// With a full path mpirun uses the same path on the hosts: needed where it has the same path on every host and
/// an unusual one, such as in a virtual environment.
fn mpirun_path(mpi: &Mpi, job_hosts: &[JobHost]) -> String {
    let there = |job_host: &JobHost| job_host.tools.mpi.as_ref().map(|mpi| mpi.mpirun.clone());
    let is_same = job_hosts.iter().all(|job_host| there(job_host).as_ref() == Some(&mpi.mpirun));
    let is_usual = ["/usr/bin/mpirun", "/bin/mpirun"].contains(&mpi.mpirun.as_str());
    if is_same && !is_usual { mpi.mpirun.clone() } else { "mpirun".to_owned() }
}

/// Variables for libraries that Open MPI uses.
fn library_variables(
    transport: &MpiTransport,
    job_hosts: &[JobHost],
    job_host: &JobHost,
    plan: &crate::environment::EnvironmentPlan,
) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    let mut set = |name: &str, value: String| variables.push((name.to_owned(), value));
    if let MpiTransport::Ofi {
        kind: FabricKind::Roce | FabricKind::InfiniBand | FabricKind::SoftRoce,
    } = transport
    {
        let mut ports = job_transport::ports(job_host, plan);
        if let (Some((device, _)), None) = (ports.next(), ports.next()) {
            set("FI_VERBS_DEVICE_NAME", device.name.clone());
        }
    }
    if let MpiTransport::Ofi { kind: FabricKind::SoftRoce } = transport {
        // libfabric creates queues for 256 peers by default, more than soft-RoCE supports.
        let ranks: u32 = job_hosts.iter().map(JobHost::ranks).sum();
        set("FI_UNIVERSE_SIZE", ranks.clamp(2, MAX_SOFT_ROCE_PEERS).to_string());
    }
    // Without a common network, each host gets its own interface.
    if *transport == MpiTransport::Tcp
        && plan.mode == Mode::Tcp
        && transport::common_network(job_hosts).is_none()
        && let Some((interface, _)) = job_host.interface()
    {
        set("OMPI_MCA_btl_tcp_if_include", interface.to_owned());
    }
    variables
}

/// For more peers the queue would be longer than soft-RoCE supports.
const MAX_SOFT_ROCE_PEERS: u32 = 32;
