//! Horovod: horovodrun runs here and connects to the hosts itself. For existing installations.

use super::arguments::Arguments;
use super::job::Job;
use super::job_transport::JobTransport;
use super::planned_launch::{HostLaunch, Launch, LocalLauncher, Refusal};
use super::ranks;
use super::site::Site;
use super::tag::Tag;
use super::tools::Tools;
use crate::job::shell_word;

pub(super) fn plan(
    job: &Job,
    here: &Tools,
    sites: &[Site],
    transport: &JobTransport,
) -> Result<Launch, Refusal> {
    let horovodrun = here.horovodrun.clone().ok_or_else(|| Refusal {
        host: None,
        reason: "this machine has no horovodrun in PATH; Horovod is hardly maintained any more: use `wirelane launch \
                 torch` instead"
            .to_owned(),
    })?;
    if let Some(site) = sites.iter().find(|site| site.tools.horovodrun.is_none()) {
        return Err(site.refusal("it has no horovodrun in PATH: install Horovod on every host"));
    }
    let hosts =
        ranks::on_hosts(job, sites, transport, |_, site| (job.command.to_vec(), gloo(site)));
    let arguments = head(horovodrun, sites, &hosts);
    let mut notes = vec![LEGACY.to_owned()];
    notes.extend(ranks::notes(sites, transport));
    Ok(Launch {
        id: job.id.to_owned(),
        mode: transport.mode,
        method: "Horovod with gloo and NCCL".to_owned(),
        head: Some(LocalLauncher {
            command: arguments.words,
            environment: vec![("WIRELANE_JOB".to_owned(), job.id.to_owned())],
            tag: Tag::Colon,
        }),
        hosts,
        notes,
        explain: arguments.reasons,
    })
}

fn head(horovodrun: String, sites: &[Site], hosts: &[HostLaunch]) -> Arguments {
    let ranks: u32 = hosts.iter().map(|host| host.slots).sum();
    let listed =
        sites.iter().zip(hosts).map(|(site, host)| format!("{}:{}", site.target, host.slots));
    let mut to = Arguments::default();
    to.plain([horovodrun]);
    to.plain(["-np", &ranks.to_string(), "-H", &listed.collect::<Vec<_>>().join(",")]);
    to.add(&["--gloo"], "ranks find each other without MPI; data between GPUs uses NCCL");
    to.plain(["sh", "-c"]);
    to.add(
        &[&start_script(sites, hosts)],
        "runs the script of the host, which sets its devices: HOROVOD_HOSTNAME is the host",
    );
    to
}

fn start_script(sites: &[Site], hosts: &[HostLaunch]) -> String {
    let each = sites.iter().zip(hosts).map(|(site, host)| {
        let [sh, script] = host.starter();
        format!("{}) exec {sh} {script};; ", shell_word(site.target))
    });
    format!("case $HOROVOD_HOSTNAME in {}esac", each.collect::<String>())
}

fn gloo(site: &Site) -> Vec<(String, String)> {
    let Some((interface, _)) = site.interface() else { return Vec::new() };
    vec![("HOROVOD_GLOO_IFACE".to_owned(), interface.to_owned())]
}

pub(super) const LEGACY: &str = "Horovod is legacy: its last release does not support PyTorch 2.1 or newer; use torchrun instead";
