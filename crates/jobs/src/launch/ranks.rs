//! What each host's ranks are given, whatever starts them.

use super::job::Job;
use super::job_transport::Settled;
use super::planned_launch::{OnHost, Refusal};
use super::site::Site;
use crate::job::Setting;

/// What can be said without looking at a fabric: the job makes sense, and every host has its program.
pub(super) fn check(job: &Job, sites: &[Site]) -> Result<(), Refusal> {
    let wrong = |reason: String| Err(Refusal { host: None, reason });
    if job.id.is_empty() || !job.id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return wrong(format!("{:?} is no id of a job: letters and digits alone", job.id));
    }
    let Some(program) = job.command.first() else {
        return wrong("no command: give the program and its arguments after `--`".to_owned());
    };
    if sites.is_empty() {
        return wrong("no host: give some, as a:4,b:4".to_owned());
    }
    if let Some((name, _)) = job.environment.iter().find(|(name, _)| !is_name(name)) {
        return wrong(format!("{name:?} is no name of a variable: letters, digits and `_`"));
    }
    match sites.iter().find(|site| site.tools.program.is_none()) {
        Some(site) => Err(site.refuses(format!(
            "it has no program {program}: neither in {} nor in the folders of PATH",
            job.directory
        ))),
        None => Ok(()),
    }
}

/// Every host with the command that `each` gives it, and variables of the framework's own.
pub(super) fn on_hosts(
    job: &Job,
    sites: &[Site],
    settled: &Settled,
    each: impl Fn(usize, &Site) -> (Vec<String>, Vec<(String, String)>),
) -> Vec<OnHost> {
    let host = |(at, site): (usize, &Site)| {
        let plan = &settled.plans[at];
        let (command, own) = each(at, site);
        let ours = plan.settings.iter().filter(|setting| is_told(setting));
        let ours = ours.map(|setting| (setting.name.clone(), setting.value.clone()));
        let mut environment = vec![("WIRELANE_JOB".to_owned(), job.id.to_owned())];
        environment.extend(ours);
        environment.extend(own);
        // The user's own come last, and stay.
        environment.retain(|(name, _)| job.environment.iter().all(|(theirs, _)| theirs != name));
        environment.extend(job.environment.iter().cloned());
        OnHost {
            host: site.name.to_owned(),
            folder: format!("/tmp/wirelane-{}-{at}", job.id),
            slots: site.ranks(),
            command,
            environment,
            directory: job.directory.to_owned(),
            path: job.path.to_owned(),
            devices: plan.devices.clone(),
        }
    };
    sites.iter().enumerate().map(host).collect()
}

/// Open MPI's own are said to mpirun, by what its version has; to others they mean nothing.
fn is_told(setting: &Setting) -> bool {
    !setting.is_users && !setting.name.starts_with("OMPI_")
}

/// What every host's plan notes, once if all say the same.
pub(super) fn notes(sites: &[Site], settled: &Settled) -> Vec<String> {
    let mut notes = settled.notes.clone();
    let Some(first) = settled.plans.first() else { return notes };
    let by_all = |note: &&String| settled.plans.iter().all(|plan| plan.notes.contains(note));
    notes.extend(first.notes.iter().filter(by_all).cloned());
    for (site, plan) in sites.iter().zip(&settled.plans) {
        let own = plan.notes.iter().filter(|note| !by_all(note));
        notes.extend(own.map(|note| format!("{}: {note}", site.name)));
    }
    notes
}

/// Where ranks find each other: below the ports that the kernel gives out by itself, and not the same for every job.
pub(super) fn port(job: &Job) -> u16 {
    let mix = |sum: u32, byte: u8| sum.wrapping_mul(31).wrapping_add(u32::from(byte));
    let mixed = job.id.bytes().fold(7, mix) % u32::from(PORTS);
    job.port.unwrap_or(FIRST_PORT + u16::try_from(mixed).unwrap_or(0))
}

fn is_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(letter) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 9_000;
