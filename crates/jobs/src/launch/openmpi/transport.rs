//! How Open MPI moves data: by UCX, by libfabric, by Omni-Path's own library, or over TCP.

use super::super::arguments::Arguments;
use super::super::job_transport::FabricKind;
use super::super::planned_launch::Refusal;
use super::super::site::Site;
use super::Series;
use crate::job::Network;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum MpiTransport {
    Ucx {
        /// Whether devices are called otherwise than mlx*.
        is_renamed: bool,
    },
    Ofi {
        kind: FabricKind,
    },
    Psm2,
    Tcp,
}

impl MpiTransport {
    /// The best that Open MPI has in it on every host.
    pub(super) fn choose(kind: FabricKind, sites: &[Site]) -> Result<MpiTransport, Refusal> {
        let is_renamed = sites.iter().any(has_other_names);
        let candidates = match kind {
            FabricKind::InfiniBand | FabricKind::Roce => {
                vec![MpiTransport::Ucx { is_renamed }, MpiTransport::Ofi { kind }]
            }
            // UCX does not get its first packets through soft-RoCE (seen with UCX 1.13, Linux 6.12).
            FabricKind::SoftRoce => {
                vec![MpiTransport::Ofi { kind }, MpiTransport::Ucx { is_renamed }]
            }
            FabricKind::OmniPath => vec![MpiTransport::Psm2, MpiTransport::Ofi { kind }],
            FabricKind::Efa => vec![MpiTransport::Ofi { kind }],
        };
        let lacking = |transport: &MpiTransport| sites.iter().find(|site| !transport.is_in(site));
        if let Some(transport) = candidates.iter().find(|transport| lacking(transport).is_none()) {
            return Ok(*transport);
        }
        let names = candidates.iter().map(|transport| transport.name().trim_start_matches("by "));
        let names: Vec<&str> = names.collect();
        let names = names.join(" or ");
        let site = candidates.iter().find_map(lacking);
        let says =
            site.and_then(|site| site.tools.mpi.as_ref()).map_or("Open MPI", |mpi| &mpi.says);
        let reason = format!("{says} there was built without {names}, which {} needs", kind.name());
        Err(Refusal { host: site.map(|site| site.name.to_owned()), reason })
    }

    pub(in super::super) fn name(self) -> &'static str {
        match self {
            MpiTransport::Ucx { .. } => "by UCX",
            MpiTransport::Ofi { .. } => "by libfabric",
            MpiTransport::Psm2 => "by PSM2",
            MpiTransport::Tcp => "over TCP",
        }
    }

    fn is_in(self, site: &Site) -> bool {
        let Some(mpi) = &site.tools.mpi else { return false };
        match self {
            MpiTransport::Ucx { .. } => mpi.has("pml:ucx"),
            MpiTransport::Ofi { .. } => mpi.has("pml:cm") && mpi.has("mtl:ofi"),
            MpiTransport::Psm2 => mpi.has("pml:cm") && mpi.has("mtl:psm2"),
            MpiTransport::Tcp => true,
        }
    }

    pub(in super::super) fn arguments(self, series: Series, sites: &[Site], to: &mut Arguments) {
        match self {
            MpiTransport::Ucx { is_renamed } => ucx(is_renamed, to),
            MpiTransport::Ofi { kind } => ofi(kind, to),
            MpiTransport::Psm2 => {
                to.add(&["--mca", "pml", "cm"], "matching is left to the card");
                to.add(&["--mca", "mtl", "psm2"], "Omni-Path is reached by its own library");
            }
            MpiTransport::Tcp => return tcp(series, sites, to),
        }
        if series == Series::Four {
            to.add(
                &["--mca", "btl", "^openib"],
                "openib alone is left out: it is the old RDMA transport, and warns; `self` and \
                 shared memory stay",
            );
        }
    }
}

fn ucx(is_renamed: bool, to: &mut Arguments) {
    to.add(
        &["--mca", "pml", "ucx"],
        "UCX is the transport for InfiniBand and RoCE. It is named because Open MPI silently falls back to TCP where UCX fails, \
         and with this it fails instead",
    );
    to.add(&["--mca", "osc", "ucx"], "one-sided operations over the same transport");
    if is_renamed {
        to.add(
            &["--mca", "opal_common_ucx_devices", "any"],
            "Open MPI expects devices that are called mlx*, and here some are not",
        );
    }
}

fn ofi(kind: FabricKind, to: &mut Arguments) {
    let provider = match kind {
        FabricKind::Efa => "efa",
        FabricKind::OmniPath => "psm2,opx",
        FabricKind::InfiniBand | FabricKind::Roce | FabricKind::SoftRoce => "verbs;ofi_rxm",
    };
    to.add(&["--mca", "pml", "cm"], "matching is left to libfabric");
    to.add(&["--mca", "mtl", "ofi"], "libfabric");
    to.add(
        &["--mca", "mtl_ofi_provider_include", provider],
        "libfabric knows TCP too, and would take it in silence: this provider or none",
    );
    to.add(&["--mca", "osc", "^ucx"], "UCX would look for devices of its own");
}

fn tcp(series: Series, sites: &[Site], to: &mut Arguments) {
    to.add(
        &["--mca", "pml", "ob1"],
        "Open MPI's own messages, over the transports that `btl` names",
    );
    let transports = format!("self,{},tcp", series.shared_memory());
    to.add(
        &["--mca", "btl", &transports],
        "a rank itself, shared memory within a host, TCP between hosts, and nothing else: a list without `^` names all \
         that may be used",
    );
    to.add(&["--mca", "osc", "^ucx"], "one-sided operations could else find RDMA by UCX");
    let has_hcoll = |site: &Site| site.tools.mpi.as_ref().is_some_and(|mpi| mpi.has("coll:hcoll"));
    if sites.iter().any(has_hcoll) {
        to.add(&["--mca", "coll", "^hcoll"], "collective operations could else find RDMA by hcoll");
    }
    if let Some(network) = common_network(sites) {
        to.add(
            &["--mca", "btl_tcp_if_include", &network.to_string()],
            "the network that all hosts are in: names of interfaces differ from host to host, and Open MPI would try \
             every one, also bridges of containers",
        );
    }
}

/// The network that every host has its address in.
pub(super) fn common_network(sites: &[Site]) -> Option<Network> {
    let (_, network) = sites.first()?.interface()?;
    let is_in = |site: &Site| site.interface().is_some_and(|(_, other)| other == network);
    sites.iter().all(is_in).then_some(network)
}

fn has_other_names(site: &Site) -> bool {
    site.node.devices.iter().any(|device| !device.name.starts_with("mlx"))
}
