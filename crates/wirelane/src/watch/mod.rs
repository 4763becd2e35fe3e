//! Looks at a machine again and again, for the exporter and for `top`.
//!
//! Each collector has a thread of its own and is asked when somebody wants a frame: a driver or library that hangs costs what
//! it would have told, and holds up nobody. What was collected less than an interval ago is told again.

mod collector;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use doctor::watch::{Frame, RdmaSample, RdmaWatch, Run, Settings};
use node::Tree;
use node::answers::{Holders, Nvml};
use node::watch::{GpuSample, GpuWatch, Usage};

use crate::output::Failure;
use collector::{Asked, Collector};

/// What is watched, and how often.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// RDMA devices, and the machine itself, are looked at no more often than this.
    pub(crate) rdma_every: Duration,
    /// GPUs are looked at no more often than this.
    pub(crate) gpu_every: Duration,
    /// What is watched of RDMA devices.
    pub(crate) rdma: Settings,
    /// Whether GPUs are looked at.
    pub(crate) gpu: bool,
    /// Whether CPUs and memory are.
    pub(crate) host: bool,
    /// Whether it is asked who holds RDMA resources.
    pub(crate) processes: bool,
}

impl Default for Plan {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Plan {
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
pub(crate) struct Watcher {
    rdma: Collector<RdmaSample>,
    gpu: Option<Collector<Gpus>>,
    host: Option<Collector<Machine>>,
    processes: Option<Collector<Holders>>,
}

/// The GPUs, or why there are none: an answer, not a failure.
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

impl Watcher {
    /// Starts the collectors. `tree` opens the machine; each collector has one of its own.
    pub(crate) fn start(
        tree: impl Fn() -> Result<Tree, Failure>,
        plan: Plan,
    ) -> Result<Watcher, Failure> {
        Ok(Watcher {
            rdma: rdma(tree()?, &plan)?,
            gpu: plan.gpu.then(|| gpu(tree()?, &plan)).transpose()?,
            host: plan.host.then(|| host(tree()?, &plan)).transpose()?,
            processes: plan.processes.then(|| processes(tree()?, &plan)).transpose()?,
        })
    }

    /// One look; what does not answer in time is not in it, and its run says so.
    pub(crate) fn frame(&self, patience: Duration) -> Frame {
        let now = Instant::now();
        let deadline = now + patience;
        // All work at once; only then is anybody waited for.
        let rdma = self.rdma.ask(now);
        let host = ask(&self.host, now);
        let processes = ask(&self.processes, now);
        let gpu = self.others_are_used().then(|| ask(&self.gpu, now));
        let mut runs = Vec::new();
        let (looked, run) = self.rdma.wait(rdma, deadline);
        runs.push(run);
        let machine = wait(&self.host, host, deadline, &mut runs, |_, _| {});
        let holders = wait(&self.processes, processes, deadline, &mut runs, |holders, run| {
            run.success = holders.why.is_none();
            run.why.clone_from(&holders.why);
        });
        let gpu = gpu.unwrap_or_else(|| ask(&self.gpu, now));
        let none = |gpus: &Gpus, run: &mut Run| run.why.clone_from(&gpus.none);
        let gpus = wait(&self.gpu, gpu, deadline, &mut runs, none);
        let looked = looked.as_deref().cloned().unwrap_or_default();
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Frame {
            at_ms: at.as_millis() as u64,
            host: machine.as_ref().and_then(|machine| machine.name.clone()),
            devices: looked.devices,
            gone: looked.gone,
            gpu_driver: gpus.as_ref().and_then(|gpus| gpus.nvml.driver.clone()),
            gpus: gpus.map(|gpus| gpus.nvml.gpus.clone()).unwrap_or_default(),
            usage: machine.as_ref().map(|machine| machine.usage.clone()),
            holders: holders.map(|holders| holders.list.clone()).unwrap_or_default(),
            runs,
            ..Frame::default()
        }
    }

    /// Whether all but the GPUs have been looked at before. A GPU's library that hangs while it is loaded holds the dynamic
    /// linker's lock, which every other thread needs for a moment when it works for the first time.
    fn others_are_used(&self) -> bool {
        self.rdma.is_used()
            && self.host.as_ref().is_none_or(Collector::is_used)
            && self.processes.as_ref().is_none_or(Collector::is_used)
    }
}

fn ask<T: Send + Sync + 'static>(collector: &Option<Collector<T>>, now: Instant) -> Option<Asked> {
    collector.as_ref().map(|collector| collector.ask(now))
}

fn wait<T: Send + Sync + 'static>(
    collector: &Option<Collector<T>>,
    asked: Option<Asked>,
    deadline: Instant,
    runs: &mut Vec<Run>,
    note: impl FnOnce(&T, &mut Run),
) -> Option<Arc<T>> {
    let (collector, asked) = collector.as_ref().zip(asked)?;
    let (told, mut run) = collector.wait(asked, deadline);
    if let Some(told) = &told {
        note(told, &mut run);
    }
    runs.push(run);
    told
}

fn rdma(tree: Tree, plan: &Plan) -> Result<Collector<RdmaSample>, Failure> {
    let mut watch = RdmaWatch::new(tree, plan.rdma.clone());
    Collector::start("rdma", plan.rdma_every, move || Ok(watch.sample(Instant::now())))
}

fn gpu(tree: Tree, plan: &Plan) -> Result<Collector<Gpus>, Failure> {
    // Those of the running machine by a session that stays; others are as they were.
    let mut watch = tree.is_live().then(GpuWatch::open);
    let look = move || match &mut watch {
        None => Ok(Gpus { nvml: tree.answers().nvml().cloned().unwrap_or_default(), none: None }),
        Some(watch) => match watch.sample(LONGEST) {
            GpuSample::Gpus(nvml) => Ok(Gpus { nvml, none: None }),
            GpuSample::NoGpus(why) => Ok(Gpus { nvml: Nvml::default(), none: Some(why) }),
            GpuSample::Failed(why) => Err(why),
        },
    };
    Collector::start("gpu", plan.gpu_every, look)
}

fn host(mut tree: Tree, plan: &Plan) -> Result<Collector<Machine>, Failure> {
    let look = move || {
        tree.clear_cache();
        let name = tree.text("/proc/sys/kernel/hostname").into_value();
        Ok(Machine { name, usage: Usage::read(&tree) })
    };
    Collector::start("host", plan.rdma_every, look)
}

fn processes(tree: Tree, plan: &Plan) -> Result<Collector<Holders>, Failure> {
    let look = move || Ok(node::watch::holders(&tree).unwrap_or_default());
    Collector::start("processes", plan.rdma_every, look)
}

/// A look that takes longer is told as a failure, and the next one finds out whether it is over.
const LONGEST: Duration = Duration::from_secs(60);
