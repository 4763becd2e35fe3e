//! The machine, processes with RDMA resources, and the state of the collectors.

use metric::Exposition;

use super::labels;
use crate::monitoring::{CollectorRun, MachineSample, ProcessResources, rows};

pub(super) fn expose(sample: &MachineSample, rdma: &mut Exposition, own: &mut Exposition) {
    sample.processes.iter().for_each(|process| add_process(rdma, process));
    if let Some(usage) = &sample.usage {
        if let Some(cpus) = usage.cpus {
            own.add(&rows::HOST_CPUS, &[], u64::from(cpus));
        }
        for (mode, seconds) in &usage.cpu_seconds {
            own.add(&rows::HOST_CPU, &[("mode", mode)], *seconds);
        }
        if let Some(load) = usage.load1 {
            own.add(&rows::HOST_LOAD, &[], load);
        }
        for (kind, bytes) in &usage.memory_bytes {
            own.add(&rows::HOST_MEMORY, &[("kind", kind)], *bytes);
        }
    }
    sample.runs.iter().for_each(|run| add_run(own, run));
}

fn add_process(rdma: &mut Exposition, process: &ProcessResources) {
    let pid = process.pid.to_string();
    let owner = labels([
        ("device", Some(&process.device)),
        ("pid", Some(&pid)),
        ("command", process.command.as_deref()),
        ("pod", process.pod.as_deref()),
        ("container", process.container.as_deref()),
    ]);
    for (kind, count) in &process.resources {
        let labels = [&owner[..], &[("kind", kind.as_str())]].concat();
        rdma.add(&rows::PROCESS_RESOURCES, &labels, *count);
    }
    if let Some(bytes) = process.registered_bytes {
        rdma.add(&rows::PROCESS_REGISTERED, &owner, bytes);
    }
}

fn add_run(own: &mut Exposition, run: &CollectorRun) {
    let labels = [("collector", run.collector.as_str())];
    own.add(&rows::SUCCESS, &labels, run.success);
    own.add(&rows::DURATION, &labels, run.seconds);
    own.add(&rows::AGE, &labels, run.age_seconds);
}
