//! The machine, processes with RDMA resources, and the state of the collectors.

use metric::Exposition;

use super::labels;
use crate::watch::{Frame, Holder, Run, rows};

pub(super) fn expose(frame: &Frame, rdma: &mut Exposition, own: &mut Exposition) {
    frame.holders.iter().for_each(|holder| add_holder(rdma, holder));
    if let Some(usage) = &frame.usage {
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
    frame.runs.iter().for_each(|run| add_run(own, run));
}

fn add_holder(rdma: &mut Exposition, holder: &Holder) {
    let pid = holder.pid.to_string();
    let owner = labels([
        ("device", Some(&holder.device)),
        ("pid", Some(&pid)),
        ("command", holder.command.as_deref()),
        ("pod", holder.pod.as_deref()),
        ("container", holder.container.as_deref()),
    ]);
    for (kind, count) in &holder.resources {
        let labels = [&owner[..], &[("kind", kind.as_str())]].concat();
        rdma.add(&rows::PROCESS_RESOURCES, &labels, *count);
    }
    if let Some(bytes) = holder.registered_bytes {
        rdma.add(&rows::PROCESS_REGISTERED, &owner, bytes);
    }
}

fn add_run(own: &mut Exposition, run: &Run) {
    let labels = [("collector", run.collector.as_str())];
    own.add(&rows::SUCCESS, &labels, run.success);
    own.add(&rows::DURATION, &labels, run.seconds);
    own.add(&rows::AGE, &labels, run.age_seconds);
}
