//! Periodic readings of a machine, for the exporter and for `top`.
//!
//! Each collector has its own thread, and reads when a sample is requested. If a driver or library hangs, its readings are
//! missing, and the others are not delayed. A reading younger than the interval is reused.

mod collector;
pub(crate) mod store_metrics;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use doctor::monitoring::{CollectorRun, MachineSample, RdmaSample, RdmaSampler, Settings};
use node::queries::{Nvml, ProcessResourcesList};
use node::sampling::{GpuSample, GpuSampler, Usage};
use node::{Address, Tree};

use crate::output::Failure;
use collector::{Collector, Request};

/// What is watched, and how often.
#[derive(Debug, Clone)]
pub(crate) struct CollectionPlan {
    /// Minimum interval between readings of RDMA devices and of the machine itself.
    pub(crate) rdma_every: Duration,
    /// Minimum interval between readings of GPUs.
    pub(crate) gpu_every: Duration,
    /// What is read of RDMA devices.
    pub(crate) rdma: Settings,
    /// Whether GPUs are read.
    pub(crate) gpu: bool,
    /// Whether CPUs and memory are.
    pub(crate) host: bool,
    /// Whether the RDMA resources of processes are read.
    pub(crate) processes: bool,
}

impl Default for CollectionPlan {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        CollectionPlan {
            rdma_every: seconds(5),
            gpu_every: seconds(15),
            rdma: Settings::default(),
            gpu: true,
            host: true,
            processes: false,
        }
    }
}

/// The collectors.
#[derive(Debug)]
pub(crate) struct Monitor {
    rdma: Collector<RdmaSample>,
    gpu: Option<Collector<Gpus>>,
    host: Option<Collector<Machine>>,
    processes: Option<Collector<ProcessResourcesList>>,
}

/// The GPUs, or why there are none, which is not a failure.
#[derive(Debug)]
struct Gpus {
    nvml: Nvml,
    none: Option<String>,
}

/// The machine itself.
#[derive(Debug)]
struct Machine {
    name: Option<String>,
    usage: Usage,
}

impl Monitor {
    /// Starts the collectors. `tree` opens the machine, for each collector separately.
    pub(crate) fn start(
        tree: impl Fn() -> Result<Tree, Failure>,
        plan: CollectionPlan,
    ) -> Result<Monitor, Failure> {
        Ok(Monitor {
            rdma: rdma(tree()?, &plan)?,
            gpu: plan.gpu.then(|| gpu(tree()?, &plan)).transpose()?,
            host: plan.host.then(|| host(tree()?, &plan)).transpose()?,
            processes: plan.processes.then(|| processes(tree()?, &plan)).transpose()?,
        })
    }

    /// One sample. Collectors that do not answer in time are missing, with the reason in their run.
    pub(crate) fn sample(&self, timeout: Duration) -> MachineSample {
        let now = Instant::now();
        let deadline = now + timeout;
        // All collectors read in parallel before the first wait.
        let rdma = self.rdma.request(now);
        let host = request(&self.host, now);
        let processes = request(&self.processes, now);
        let gpu = self.others_are_used().then(|| request(&self.gpu, now));
        let mut runs = Vec::new();
        let (rdma, run) = self.rdma.wait(rdma, deadline);
        runs.push(run);
        let machine = wait(&self.host, host, deadline, &mut runs, |_, _| {});
        let resources = wait(&self.processes, processes, deadline, &mut runs, |resources, run| {
            run.success = resources.why.is_none();
            run.why.clone_from(&resources.why);
        });
        let gpu = gpu.unwrap_or_else(|| request(&self.gpu, now));
        let none = |gpus: &Gpus, run: &mut CollectorRun| run.why.clone_from(&gpus.none);
        let gpus = wait(&self.gpu, gpu, deadline, &mut runs, none);
        let rdma = rdma.as_deref().cloned().unwrap_or_default();
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        MachineSample {
            at_ms: at.as_millis() as u64,
            host: machine.as_ref().and_then(|machine| machine.name.clone()),
            devices: rdma.devices,
            gone: rdma.gone,
            gpu_driver: gpus.as_ref().and_then(|gpus| gpus.nvml.driver.clone()),
            gpus: gpus.map(|gpus| gpus.nvml.gpus.clone()).unwrap_or_default(),
            usage: machine.as_ref().map(|machine| machine.usage.clone()),
            processes: resources.map(|resources| resources.list.clone()).unwrap_or_default(),
            runs,
            ..MachineSample::default()
        }
    }

    /// Whether all but the GPUs have been read before. A GPU library that hangs while it is loaded holds the dynamic
    /// linker's lock, which every other thread needs for its first reading.
    fn others_are_used(&self) -> bool {
        self.rdma.is_used()
            && self.host.as_ref().is_none_or(Collector::is_used)
            && self.processes.as_ref().is_none_or(Collector::is_used)
    }
}

fn request<T: Send + Sync + 'static>(
    collector: &Option<Collector<T>>,
    now: Instant,
) -> Option<Request> {
    collector.as_ref().map(|collector| collector.request(now))
}

fn wait<T: Send + Sync + 'static>(
    collector: &Option<Collector<T>>,
    request: Option<Request>,
    deadline: Instant,
    runs: &mut Vec<CollectorRun>,
    note: impl FnOnce(&T, &mut CollectorRun),
) -> Option<Arc<T>> {
    let (collector, request) = collector.as_ref().zip(request)?;
    let (reading, mut run) = collector.wait(request, deadline);
    if let Some(reading) = &reading {
        note(reading, &mut run);
    }
    runs.push(run);
    reading
}

fn rdma(tree: Tree, plan: &CollectionPlan) -> Result<Collector<RdmaSample>, Failure> {
    let mut watch = RdmaSampler::new(tree, plan.rdma.clone());
    Collector::start("rdma", plan.rdma_every, move || Ok(watch.sample(Instant::now())))
}

fn gpu(mut tree: Tree, plan: &CollectionPlan) -> Result<Collector<Gpus>, Failure> {
    // On the running machine, over a session that stays open; in a snapshot they are fixed.
    let mut watch = tree.is_live().then(GpuSampler::open);
    let read = move || match &mut watch {
        None => {
            Ok(Gpus { nvml: tree.query_results().nvml().cloned().unwrap_or_default(), none: None })
        }
        Some(watch) => {
            tree.clear_cache();
            gpus(watch.sample(GPU_TIMEOUT), &tree)
        }
    };
    Collector::start("gpu", plan.gpu_every, read)
}

/// A machine without GPUs is no failure, but GPUs that NVML cannot see are one: a pod without them, or a missing library.
fn gpus(sample: GpuSample, tree: &Tree) -> Result<Gpus, String> {
    match sample {
        GpuSample::Gpus(nvml) => Ok(Gpus { nvml, none: None }),
        GpuSample::Failed(why) => Err(why),
        GpuSample::NoGpus(why) => {
            let bound = tree.list("/sys/bus/pci/drivers/nvidia");
            match bound.iter().filter(|name| Address::parse(name).is_some()).count() {
                0 => Ok(Gpus { nvml: Nvml::default(), none: Some(why) }),
                count => Err(format!(
                    "NVIDIA's driver has {count} GPU(s), but none can be read here: {why}; in a pod, use NVIDIA's container \
                     runtime (`wirelane k8s exporter --gpu`) or pass --no-gpu"
                )),
            }
        }
    }
}

fn host(mut tree: Tree, plan: &CollectionPlan) -> Result<Collector<Machine>, Failure> {
    let read = move || {
        tree.clear_cache();
        let name = tree.text("/proc/sys/kernel/hostname").into_value();
        Ok(Machine { name, usage: Usage::read(&tree) })
    };
    Collector::start("host", plan.rdma_every, read)
}

fn processes(
    tree: Tree,
    plan: &CollectionPlan,
) -> Result<Collector<ProcessResourcesList>, Failure> {
    let read = move || Ok(node::sampling::process_resources(&tree).unwrap_or_default());
    Collector::start("processes", plan.rdma_every, read)
}

/// A reading that takes longer is reported as a failure, and the next one checks whether it has finished.
const GPU_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(links: serde_json::Value) -> Tree {
        let snapshot = serde_json::json!({ "format": "wirelane snapshot 1", "links": links });
        Tree::parse(snapshot.to_string().as_bytes()).expect("a tree")
    }

    #[test]
    fn gpus_that_cannot_be_read_are_a_failure_and_a_machine_without_gpus_is_not() {
        let none = || GpuSample::NoGpus("NVML is not installed".to_owned());
        let without = machine(serde_json::json!({}));
        let read = gpus(none(), &without).expect("no failure");
        assert_eq!(
            (read.nvml.gpus.len(), read.none.as_deref()),
            (0, Some("NVML is not installed"))
        );
        let with = machine(serde_json::json!({
            "/sys/bus/pci/drivers/nvidia/0000:1b:00.0": "/sys/devices/pci0000:1a/0000:1b:00.0",
            "/sys/bus/pci/drivers/nvidia/0000:2c:00.0": "/sys/devices/pci0000:2b/0000:2c:00.0",
            "/sys/bus/pci/drivers/nvidia/module": "/sys/module/nvidia",
        }));
        let why = gpus(none(), &with).expect_err("a failure");
        assert!(why.contains("has 2 GPU(s)") && why.contains("NVML is not installed"), "{why}");
    }
}
