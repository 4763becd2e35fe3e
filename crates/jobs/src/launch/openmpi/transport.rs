//! The transport of Open MPI: UCX, libfabric, Omni-Path's own library, or TCP.

use super::super::arguments::Arguments;
use super::super::job_host::JobHost;
use super::super::job_transport::FabricKind;
use super::super::planned_launch::Refusal;
use super::Series;
use crate::environment::Network;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum MpiTransport {
    Ucx {
        /// Whether some devices are not named mlx*.
        is_renamed: bool,
    },
    Ofi {
        kind: FabricKind,
    },
    Psm2,
    Tcp,
}

impl MpiTransport {
    /// The best transport that Open MPI was built with on every host.
    pub(super) fn choose(kind: FabricKind, job_hosts: &[JobHost]) -> Result<MpiTransport, Refusal> {
        let is_renamed = job_hosts.iter().any(has_other_names);
        let candidates = match kind {
            FabricKind::InfiniBand | FabricKind::Roce => {
                vec![MpiTransport::Ucx { is_renamed }, MpiTransport::Ofi { kind }]
            }
            // UCX fails to connect over soft-RoCE (seen with UCX 1.13, Linux 6.12).
            FabricKind::SoftRoce => {
                vec![MpiTransport::Ofi { kind }, MpiTransport::Ucx { is_renamed }]
            }
            FabricKind::OmniPath => vec![MpiTransport::Psm2, MpiTransport::Ofi { kind }],
            FabricKind::Efa => vec![MpiTransport::Ofi { kind }],
        };
        let lacking = |transport: &MpiTransport| {
            job_hosts.iter().find(|job_host| !transport.is_supported_by(job_host))
        };
        if let Some(transport) = candidates.iter().find(|transport| lacking(transport).is_none()) {
            return Ok(*transport);
        }
        let names = candidates.iter().map(|transport| transport.name().trim_start_matches("with "));
        let names: Vec<&str> = names.collect();
        let names = names.join(" or ");
        let job_host = candidates.iter().find_map(lacking);
        let version_line = job_host
            .and_then(|job_host| job_host.tools.mpi.as_ref())
            .map_or("Open MPI", |mpi| &mpi.version_line);
        let reason =
            format!("{version_line} there was built without {names}, which {} needs", kind.name());
        Err(Refusal { host: job_host.map(|job_host| job_host.name.to_owned()), reason })
    }

    pub(in super::super) fn name(self) -> &'static str {
        match self {
            MpiTransport::Ucx { .. } => "with UCX",
            MpiTransport::Ofi { .. } => "with libfabric",
            MpiTransport::Psm2 => "with PSM2",
            MpiTransport::Tcp => "over TCP",
        }
    }

    fn is_supported_by(self, job_host: &JobHost) -> bool {
        let Some(mpi) = &job_host.tools.mpi else { return false };
        match self {
            MpiTransport::Ucx { .. } => mpi.has("pml:ucx"),
            MpiTransport::Ofi { .. } => mpi.has("pml:cm") && mpi.has("mtl:ofi"),
            MpiTransport::Psm2 => mpi.has("pml:cm") && mpi.has("mtl:psm2"),
            MpiTransport::Tcp => true,
        }
    }

    pub(in super::super) fn arguments(
        self,
        series: Series,
        job_hosts: &[JobHost],
        to: &mut Arguments,
    ) {
        match self {
            MpiTransport::Ucx { is_renamed } => ucx(is_renamed, to),
            MpiTransport::Ofi { kind } => ofi(kind, to),
            MpiTransport::Psm2 => {
                to.add(&["--mca", "pml", "cm"], "the NIC matches messages");
                to.add(&["--mca", "mtl", "psm2"], "Omni-Path's own library");
            }
            MpiTransport::Tcp => return tcp(series, job_hosts, to),
        }
        if series == Series::Four {
            to.add(
                &["--mca", "btl", "^openib"],
                "only openib is excluded: it is the old RDMA transport, and warns; `self` and \
                 shared memory stay",
            );
        }
    }
}

fn ucx(is_renamed: bool, to: &mut Arguments) {
    to.add(
        &["--mca", "pml", "ucx"],
        "UCX is the transport for InfiniBand and RoCE. Without this Open MPI silently falls back to TCP where UCX fails; \
         with it the job fails instead",
    );
    to.add(&["--mca", "osc", "ucx"], "one-sided operations over the same transport");
    if is_renamed {
        to.add(
            &["--mca", "opal_common_ucx_devices", "any"],
            "by default Open MPI uses only devices named mlx*, and here some are not",
        );
    }
}

fn ofi(kind: FabricKind, to: &mut Arguments) {
    let provider = match kind {
        FabricKind::Efa => "efa",
        FabricKind::OmniPath => "psm2,opx",
        FabricKind::InfiniBand | FabricKind::Roce | FabricKind::SoftRoce => "verbs;ofi_rxm",
    };
    to.add(&["--mca", "pml", "cm"], "libfabric matches messages");
    to.add(&["--mca", "mtl", "ofi"], "libfabric");
    to.add(
        &["--mca", "mtl_ofi_provider_include", provider],
        "only this provider: libfabric would silently fall back to TCP otherwise",
    );
    to.add(&["--mca", "osc", "^ucx"], "UCX would select devices itself");
}

fn tcp(series: Series, job_hosts: &[JobHost], to: &mut Arguments) {
    to.add(&["--mca", "pml", "ob1"], "Open MPI's own messaging, over the transports of `btl`");
    let transports = format!("self,{},tcp", series.shared_memory());
    to.add(
        &["--mca", "btl", &transports],
        "only loopback within a rank, shared memory within a host, and TCP between hosts: a list without `^` is \
         exhaustive",
    );
    to.add(&["--mca", "osc", "^ucx"], "one-sided operations could otherwise use RDMA through UCX");
    let has_hcoll =
        |job_host: &JobHost| job_host.tools.mpi.as_ref().is_some_and(|mpi| mpi.has("coll:hcoll"));
    if job_hosts.iter().any(has_hcoll) {
        to.add(
            &["--mca", "coll", "^hcoll"],
            "collective operations could otherwise use RDMA through hcoll",
        );
    }
    if let Some(network) = common_network(job_hosts) {
        to.add(
            &["--mca", "btl_tcp_if_include", &network.to_string()],
            "the network of all hosts: interface names differ between hosts, and Open MPI would try \
             every interface, including container bridges",
        );
    }
}

/// The network that every host has its address in.
pub(super) fn common_network(job_hosts: &[JobHost]) -> Option<Network> {
    let (_, network) = job_hosts.first()?.interface()?;
    let is_in =
        |job_host: &JobHost| job_host.interface().is_some_and(|(_, other)| other == network);
    job_hosts.iter().all(is_in).then_some(network)
}

fn has_other_names(job_host: &JobHost) -> bool {
    job_host.node.devices.iter().any(|device| !device.name.starts_with("mlx"))
}
