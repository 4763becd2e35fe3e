//! `wirelane k8s`: prints manifests for Kubernetes and OpenShift, based on a node. Applies nothing.

mod nics;
mod workload;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jobs::k8s::{self, ExporterRequest, Image, MachineConfigRequest, ManifestSet, Name, Platform};
use node::Node;

use crate::arguments::host::HostArgs;
use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;
use nics::{NetworkArgs, PolicyArgs};
use workload::{JobArgs, VerifyArgs};

#[derive(Debug, Args)]
pub(crate) struct K8sArgs {
    /// Read this directory tree or snapshot file of a node instead of the running machine
    #[arg(long, value_name = "PATH", default_value = "/", global = true)]
    root: PathBuf,

    /// In a pod: where the host's /sys is mounted
    #[arg(long, value_name = "DIR", global = true)]
    host_sys: Option<PathBuf>,

    #[command(subcommand)]
    command: K8sCommand,
}

#[derive(Debug, Subcommand)]
enum K8sCommand {
    /// MachineConfig for OpenShift: IOMMU pass-through, and the memlock limit of CRI-O
    Machineconfig(MachineConfigArgs),
    /// Policies for the SR-IOV operator: virtual functions on the NICs of this node
    Policy(PolicyArgs),
    /// Networks for the SR-IOV operator, for pods to attach to
    Network(NetworkArgs),
    /// Job on one or several nodes, started with `wirelane exec`
    Job(JobArgs),
    /// Pods that run the doctor, and transfer data between two nodes
    Verify(VerifyArgs),
    /// DaemonSet of the exporter, and a PodMonitor
    Exporter(ExporterArgs),
}

#[derive(Debug, Args)]
struct MachineConfigArgs {
    /// Machine config pool
    #[arg(long, value_name = "ROLE", default_value = "worker")]
    role: Name,

    /// Enable the IOMMU if it is off (for devices that are passed to virtual machines)
    #[arg(long)]
    enable_iommu: bool,

    /// Remove the memlock limit of containers, also for users other than root
    #[arg(long)]
    memlock: bool,
}

#[derive(Debug, Args)]
struct ExporterArgs {
    /// Namespace
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: Name,

    /// Name of the objects
    #[arg(long, value_name = "NAME", default_value = "wirelane-exporter")]
    name: Name,

    /// Image that contains this program
    #[arg(long, value_name = "IMAGE")]
    image: Image,

    /// Also read GPUs; needs the runtime class `nvidia` of NVIDIA's GPU operator
    #[arg(long)]
    gpu: bool,

    /// Kind of cluster
    #[arg(long, value_name = "PLATFORM", default_value = "openshift")]
    platform: PlatformArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlatformArg {
    Openshift,
    Kubernetes,
}

pub(crate) fn run(_global: &Global, args: &K8sArgs) -> Result<Exit, Failure> {
    let set = match &args.command {
        K8sCommand::Machineconfig(config) => {
            let MachineConfigArgs { role, enable_iommu, memlock } = config;
            let request =
                MachineConfigRequest { role, enable_iommu: *enable_iommu, memlock: *memlock };
            k8s::machine_config(&args.node()?, &request)
        }
        K8sCommand::Policy(policy) => policy.print(&args.node()?)?,
        K8sCommand::Network(network) => network.print(&args.node()?)?,
        K8sCommand::Job(job) => job.print(&args.node()?)?,
        K8sCommand::Verify(verify) => verify.print(),
        K8sCommand::Exporter(ExporterArgs { namespace, name, image, gpu, platform }) => {
            let platform = (*platform).into();
            k8s::exporter(&ExporterRequest { name, namespace, image, platform, with_gpus: *gpu })
        }
    };
    print(&set)
}

fn print(set: &ManifestSet) -> Result<Exit, Failure> {
    for note in &set.notes {
        output::warning(note);
    }
    output::answer(&k8s::text(&set.manifests))?;
    Ok(Exit::Done)
}

impl K8sArgs {
    fn node(&self) -> Result<Node, Failure> {
        let host = HostArgs { root: self.root.clone(), host_sys: self.host_sys.clone() };
        Ok(Node::read(&host.tree()?))
    }
}

impl From<PlatformArg> for Platform {
    fn from(platform: PlatformArg) -> Platform {
        match platform {
            PlatformArg::Openshift => Platform::OpenShift,
            PlatformArg::Kubernetes => Platform::Kubernetes,
        }
    }
}
