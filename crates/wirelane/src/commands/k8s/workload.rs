//! `job` and `verify`: workloads in pods.

use clap::{Args, ValueEnum};
use jobs::k8s::{
    self, Image, JobRequest, JobType, ManifestSet, Name, NicGroup, Platform, PodLaunch, Resource,
    VerifyRequest, Workload,
};
use node::Node;

use super::PlatformArg;
use crate::output::Failure;

#[derive(Debug, Args)]
pub(super) struct JobArgs {
    #[command(flatten)]
    workload: WorkloadArgs,

    /// Name of the objects
    #[arg(long, value_name = "NAME", default_value = "wirelane-job")]
    name: Name,

    /// Image of the command, if it is not --image
    #[arg(long, value_name = "IMAGE")]
    job_image: Option<Image>,

    /// One node (a Job) or several (a StatefulSet, whose ranks find each other)
    #[arg(long = "type", value_name = "TYPE", default_value = "single")]
    kind: TypeArg,

    /// Number of nodes, with --type multi
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    replicas: u32,

    /// Start one job over several pods: with torchrun in each, or TensorFlow's TF_CONFIG
    #[arg(long, value_name = "FRAMEWORK")]
    launch: Option<LaunchArg>,

    /// GPUs of each pod (default: the number of NVIDIA GPUs of this node)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    gpus: Option<u32>,

    /// The command and its arguments (default: sleep forever, for `kubectl exec`)
    #[arg(value_name = "CMD", last = true)]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    workload: WorkloadArgs,

    /// Name of the objects
    #[arg(long, value_name = "NAME", default_value = "wirelane-verify")]
    name: Name,
}

/// Arguments of both.
#[derive(Debug, Args)]
struct WorkloadArgs {
    /// Namespace
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: Name,

    /// With or without RDMA devices
    #[arg(long, value_name = "MODE", default_value = "rdma")]
    mode: ModeArg,

    /// Image that contains this program; an init container copies it from there
    #[arg(long, value_name = "IMAGE")]
    image: Image,

    /// Resource name of the RDMA devices
    #[arg(long, value_name = "RESOURCE", default_value = "openshift.io/wirelane_rdma")]
    resource: Resource,

    /// RDMA devices of each pod (default: 1; for a job, its share of the node's NICs, by its GPUs)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    devices: Option<u32>,

    /// Network to attach the pods to
    #[arg(long, value_name = "NAME", default_value = "wirelane-rdma")]
    network: Name,

    /// Kind of cluster; OpenShift has security context constraints
    #[arg(long, value_name = "PLATFORM", default_value = "openshift")]
    platform: PlatformArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    Rdma,
    Tcp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TypeArg {
    Single,
    Multi,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LaunchArg {
    Torch,
    Tensorflow,
}

impl JobArgs {
    pub(super) fn print(&self, node: &Node) -> Result<ManifestSet, Failure> {
        if self.launch.is_some() && (self.kind == TypeArg::Single || self.command.is_empty()) {
            return Err(Failure::usage(
                "--launch starts one job over several pods: it requires --type multi and a command",
            ));
        }
        let is_nvidia = |gpu: &&node::Gpu| gpu.vendor.as_deref() == Some("NVIDIA");
        let found = || u32::try_from(node.gpus.iter().filter(is_nvidia).count()).unwrap_or(0);
        let wait = ["sleep".to_owned(), "infinity".to_owned()];
        let command = if self.command.is_empty() { &wait[..] } else { &self.command };
        let mut workload = self.workload.workload(&self.name, command);
        workload.gpus = self.gpus.unwrap_or_else(found);
        workload.job_image = self.job_image.as_ref();
        let nics = NicGroup::of_jobs(NicGroup::find(node).0).0;
        let nics = nics.first().map_or(0, |nics| nics.addresses.len() as u32);
        workload.devices = match self.workload.devices {
            Some(devices) => devices,
            None => share(nics, workload.gpus, found()),
        };
        let is_guess = self.workload.devices.is_none() && nics == 0 && workload.gpus > 1;
        let gpus = workload.gpus;
        let mut set = k8s::job(&JobRequest {
            workload,
            kind: match self.kind {
                TypeArg::Single => JobType::Single,
                TypeArg::Multi => JobType::Multi(self.replicas),
            },
            launch: self.launch.map(|launch| match launch {
                LaunchArg::Torch => PodLaunch::Torch,
                LaunchArg::Tensorflow => PodLaunch::Tensorflow,
            }),
            platform: self.workload.platform(),
        });
        if is_guess && self.workload.mode == ModeArg::Rdma {
            set.notes.push(format!(
                "this node has no NIC with virtual functions: each pod with {gpus} GPUs requests 1 RDMA device; pass --devices"
            ));
        }
        Ok(set)
    }
}

/// The share of the node's NICs for some of its GPUs: at least one.
fn share(nics: u32, gpus: u32, of: u32) -> u32 {
    match of {
        0 => 1,
        of => (nics * gpus.min(of)).div_ceil(of).clamp(1, MAX_DEVICES),
    }
}

impl VerifyArgs {
    pub(super) fn print(&self) -> ManifestSet {
        let workload = self.workload.workload(&self.name, &[]);
        k8s::verify(&VerifyRequest { workload, platform: self.workload.platform() })
    }
}

impl WorkloadArgs {
    fn workload<'w>(&'w self, name: &'w Name, command: &'w [String]) -> Workload<'w> {
        Workload {
            name,
            namespace: &self.namespace,
            image: &self.image,
            job_image: None,
            with_rdma: self.mode == ModeArg::Rdma,
            resource: &self.resource,
            devices: self.devices.unwrap_or(1),
            network: &self.network,
            gpus: 0,
            command,
        }
    }

    fn platform(&self) -> Platform {
        self.platform.into()
    }
}

/// More than any node has.
const MAX_DEVICES: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_gets_its_share_of_the_nics() {
        assert_eq!([8, 4, 3, 1, 0].map(|gpus| share(8, gpus, 8)), [8, 4, 3, 1, 1]);
        assert_eq!([8, 4, 2, 1].map(|gpus| share(4, gpus, 8)), [4, 2, 1, 1]);
        assert_eq!((share(2, 16, 8), share(0, 8, 8), share(4, 2, 0)), (2, 1, 1));
    }
}
