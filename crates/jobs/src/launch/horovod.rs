//! Horovod: horovodrun here, which reaches the hosts by itself. Kept for those who have it.

use super::arguments::Arguments;
use super::job::Job;
use super::job_transport::Settled;
use super::planned_launch::{Head, Launch, OnHost, Refusal};
use super::ranks;
use super::site::Site;
use super::tag::Tag;
use super::tools::Tools;
use crate::job::shell_word;

pub(super) fn plan(
    job: &Job,
    here: &Tools,
    sites: &[Site],
    settled: &Settled,
) -> Result<Launch, Refusal> {
    let horovodrun = here.horovodrun.clone().ok_or_else(|| Refusal {
        host: None,
        reason: "this machine has no horovodrun in PATH; Horovod is hardly kept up any more: `wirelane launch torch` does \
                 the same work"
            .to_owned(),
    })?;
    if let Some(site) = sites.iter().find(|site| site.tools.horovodrun.is_none()) {
        return Err(site.refuses("it has no horovodrun in PATH: Horovod must be on every host"));
    }
    let hosts = ranks::on_hosts(job, sites, settled, |_, site| (job.command.to_vec(), gloo(site)));
    let arguments = head(horovodrun, sites, &hosts);
    let mut notes = vec![LEGACY.to_owned()];
    notes.extend(ranks::notes(sites, settled));
    Ok(Launch {
        id: job.id.to_owned(),
        mode: settled.mode,
        way: "Horovod, by gloo and NCCL".to_owned(),
        head: Some(Head {
            command: arguments.words,
            environment: vec![("WIRELANE_JOB".to_owned(), job.id.to_owned())],
            tag: Tag::Colon,
        }),
        hosts,
        notes,
        explain: arguments.reasons,
    })
}

fn head(horovodrun: String, sites: &[Site], hosts: &[OnHost]) -> Arguments {
    let ranks: u32 = hosts.iter().map(|host| host.slots).sum();
    let listed =
        sites.iter().zip(hosts).map(|(site, host)| format!("{}:{}", site.target, host.slots));
    let mut to = Arguments::default();
    to.plain([horovodrun]);
    to.plain(["-np", &ranks.to_string(), "-H", &listed.collect::<Vec<_>>().join(",")]);
    to.add(&["--gloo"], "ranks find each other without MPI; data between GPUs uses NCCL");
    to.plain(["sh", "-c"]);
    to.add(
        &[&choice(sites, hosts)],
        "each host's own script sets its own devices: HOROVOD_HOSTNAME tells which",
    );
    to
}

fn choice(sites: &[Site], hosts: &[OnHost]) -> String {
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

pub(super) const LEGACY: &str =
    "Horovod is legacy: its last release knows no PyTorch from 2.1 on; torchrun does the same work";
