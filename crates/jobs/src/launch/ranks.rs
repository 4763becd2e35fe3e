//! The environment and command of each host's ranks, for all frameworks.

use super::job::Job;
use super::job_host::JobHost;
use super::job_transport::JobTransport;
use super::planned_launch::{HostLaunch, Refusal};
use crate::environment::Variable;

/// Checks the job, and that every host has its program.
pub(super) fn check(job: &Job, job_hosts: &[JobHost]) -> Result<(), Refusal> {
    let wrong = |reason: String| Err(Refusal { host: None, reason });
    if job.id.is_empty() || !job.id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return wrong(format!("{:?} is not a job ID: use only letters and digits", job.id));
    }
    let Some(program) = job.command.first() else {
        return wrong("no command: pass the program and its arguments after `--`".to_owned());
    };
    if job_hosts.is_empty() {
        return wrong("no host: pass hosts, such as a:4,b:4".to_owned());
    }
    if let Some((name, _)) = job.environment.iter().find(|(name, _)| !is_name(name)) {
        return wrong(format!("{name:?} is not a variable name: use letters, digits and `_`"));
    }
    match job_hosts.iter().find(|job_host| job_host.tools.program.is_none()) {
        Some(job_host) => Err(job_host.refusal(format!(
            "it has no program {program}: neither in {} nor in the folders of PATH",
            job.directory
        ))),
        None => Ok(()),
    }
}

/// The hosts of the requested number of ranks, which fill the hosts in their order; the last ones may get none.
pub(super) fn limit<'s>(job: &Job, job_hosts: &[JobHost<'s>]) -> Result<Vec<JobHost<'s>>, Refusal> {
    let Some(wanted) = job.ranks else { return Ok(job_hosts.to_vec()) };
    let slots: u32 = job_hosts.iter().map(JobHost::ranks).sum();
    if wanted == 0 || wanted > slots {
        let reason = format!(
            "{wanted} ranks: the hosts have {slots} slots; give them more, as in --hosts a:8,b:8"
        );
        return Err(Refusal { host: None, reason });
    }
    let mut left = wanted;
    let mut used = Vec::new();
    for job_host in job_hosts {
        let ranks = job_host.ranks().min(left);
        left -= ranks;
        if ranks > 0 {
            used.push(JobHost { slots: Some(ranks), ..*job_host });
        }
    }
    Ok(used)
}

/// Every host with the command and the framework's variables that `each` returns.
pub(super) fn on_hosts(
    job: &Job,
    job_hosts: &[JobHost],
    transport: &JobTransport,
    each: impl Fn(usize, &JobHost) -> (Vec<String>, Vec<(String, String)>),
) -> Vec<HostLaunch> {
    let host = |(at, job_host): (usize, &JobHost)| {
        let (command, own) = each(at, job_host);
        on_host(job, (at, job_host), transport, command, own)
    };
    job_hosts.iter().enumerate().map(host).collect()
}

/// One host, by its index, with the command and the framework's variables.
pub(super) fn on_host(
    job: &Job,
    (at, job_host): (usize, &JobHost),
    transport: &JobTransport,
    command: Vec<String>,
    own: Vec<(String, String)>,
) -> HostLaunch {
    let plan = &transport.plans[at];
    let ours = plan.variables.iter().filter(|variable| is_for_script(variable));
    let ours = ours.map(|variable| (variable.name.clone(), variable.value.clone()));
    let mut environment = vec![("WIRELANE_JOB".to_owned(), job.id.to_owned())];
    environment.extend(ours);
    environment.extend(own);
    // The user's variables come last, and replace ours.
    environment.retain(|(name, _)| job.environment.iter().all(|(theirs, _)| theirs != name));
    environment.extend(job.environment.iter().cloned());
    HostLaunch {
        host: job_host.name.to_owned(),
        host_index: at,
        folder: format!("/tmp/wirelane-{}-{at}", job.id),
        slots: job_host.ranks(),
        command,
        environment,
        directory: job.directory.to_owned(),
        path: job.path.to_owned(),
        devices: plan.devices.clone(),
    }
}

/// Open MPI's variables are arguments of mpirun instead, depending on its version; other programs ignore them.
fn is_for_script(variable: &Variable) -> bool {
    !variable.is_users && !variable.name.starts_with("OMPI_")
}

/// The notes of all hosts' plans; a note that all have is listed once.
pub(super) fn notes(job_hosts: &[JobHost], transport: &JobTransport) -> Vec<String> {
    let mut notes = transport.notes.clone();
    let Some(first) = transport.plans.first() else { return notes };
    let by_all = |note: &&String| transport.plans.iter().all(|plan| plan.notes.contains(note));
    notes.extend(first.notes.iter().filter(by_all).cloned());
    for (job_host, plan) in job_hosts.iter().zip(&transport.plans) {
        let own = plan.notes.iter().filter(|note| !by_all(note));
        notes.extend(own.map(|note| format!("{}: {note}", job_host.name)));
    }
    notes
}

/// The rendezvous port: below the kernel's ephemeral ports, and different between jobs.
pub(super) fn port(job: &Job) -> u16 {
    let hash = |sum: u32, byte: u8| sum.wrapping_mul(31).wrapping_add(u32::from(byte));
    let offset = job.id.bytes().fold(7, hash) % u32::from(PORT_COUNT);
    job.port.unwrap_or(FIRST_PORT + u16::try_from(offset).unwrap_or(0))
}

fn is_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(letter) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

const FIRST_PORT: u16 = 20_000;
const PORT_COUNT: u16 = 9_000;
