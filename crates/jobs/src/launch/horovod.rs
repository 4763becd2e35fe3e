//! Horovod: horovodrun runs here and connects to the hosts itself. For existing installations.

use super::arguments::Arguments;
use super::job::Job;
use super::job_host::JobHost;
use super::job_transport::JobTransport;
use super::planned_launch::{HostLaunch, Launch, LocalLauncher, Refusal};
use super::ranks;
use super::tag::Tag;
use super::tools::Tools;
use crate::environment::shell_word;

pub(super) fn plan(
    job: &Job,
    here: &Tools,
    job_hosts: &[JobHost],
    transport: &JobTransport,
) -> Result<Launch, Refusal> {
    let horovodrun = here.horovodrun.clone().ok_or_else(|| Refusal {
        host: None,
        reason: "this machine has no horovodrun in PATH; Horovod is hardly maintained any more: use `wirelane launch \
                 torch` instead"
            .to_owned(),
    })?;
    if let Some(job_host) = job_hosts.iter().find(|job_host| job_host.tools.horovodrun.is_none()) {
        return Err(job_host.refusal("it has no horovodrun in PATH: install Horovod on every host"));
    }
    let hosts = ranks::on_hosts(job, job_hosts, transport, |_, job_host| {
        (job.command.to_vec(), gloo(job_host))
    });
    let arguments = launcher_arguments(horovodrun, job_hosts, &hosts);
    let mut notes = vec![LEGACY.to_owned()];
    notes.extend(ranks::notes(job_hosts, transport));
    Ok(Launch {
        id: job.id.to_owned(),
        mode: transport.mode,
        method: "Horovod with gloo and NCCL".to_owned(),
        launcher: Some(LocalLauncher {
            command: arguments.words,
            environment: vec![("WIRELANE_JOB".to_owned(), job.id.to_owned())],
            tag: Tag::Colon,
        }),
        hosts,
        notes,
        explain: arguments.reasons,
    })
}

fn launcher_arguments(
    horovodrun: String,
    job_hosts: &[JobHost],
    hosts: &[HostLaunch],
) -> Arguments {
    let ranks: u32 = hosts.iter().map(|host| host.slots).sum();
    let listed = job_hosts
        .iter()
        .zip(hosts)
        .map(|(job_host, host)| format!("{}:{}", job_host.target, host.slots));
    let mut to = Arguments::default();
    to.plain([horovodrun]);
    to.plain(["-np", &ranks.to_string(), "-H", &listed.collect::<Vec<_>>().join(",")]);
    to.add(&["--gloo"], "ranks find each other without MPI; data between GPUs uses NCCL");
    to.plain(["sh", "-c"]);
    to.add(
        &[&start_script(job_hosts, hosts)],
        "runs the script of the host, which sets its devices: HOROVOD_HOSTNAME is the host",
    );
    to
}

fn start_script(job_hosts: &[JobHost], hosts: &[HostLaunch]) -> String {
    let each = job_hosts.iter().zip(hosts).map(|(job_host, host)| {
        let [sh, script] = host.starter();
        format!("{}) exec {sh} {script};; ", shell_word(job_host.target))
    });
    format!("case $HOROVOD_HOSTNAME in {}esac", each.collect::<String>())
}

fn gloo(job_host: &JobHost) -> Vec<(String, String)> {
    let Some((interface, _)) = job_host.interface() else { return Vec::new() };
    vec![("HOROVOD_GLOO_IFACE".to_owned(), interface.to_owned())]
}

pub(super) const LEGACY: &str = "Horovod is legacy: its last release does not support PyTorch 2.1 or newer; use torchrun instead";
