//! TensorFlow: the same command on every host, which reads its role from `TF_CONFIG`.

use serde_json::{Map, Value, json};

use super::job::Job;
use super::job_host::JobHost;
use super::job_transport::JobTransport;
use super::planned_launch::{Launch, Reason, Refusal};
use super::ranks;
use crate::job::Mode;

pub(super) fn plan(
    job: &Job,
    job_hosts: &[JobHost],
    transport: &JobTransport,
    ps: u32,
    chief: bool,
) -> Result<Launch, Refusal> {
    let roles = roles(job_hosts.len(), ps, chief)?;
    let cluster = cluster(job, job_hosts, &roles);
    let mut hosts = ranks::on_hosts(job, job_hosts, transport, |at, _| {
        let (kind, index) = task(&roles, at);
        let config = json!({ "cluster": cluster, "task": { "type": kind, "index": index } });
        (job.command.to_vec(), vec![("TF_CONFIG".to_owned(), config.to_string())])
    });
    // One process per host, which uses all its GPUs.
    hosts.iter_mut().for_each(|host| host.slots = 1);
    let mut notes = ranks::notes(job_hosts, transport);
    if transport.mode == Mode::Rdma {
        notes.push(
            "TensorFlow itself uses gRPC over TCP (grpc+verbs was removed in version 2); RDMA is used by NCCL between GPUs \
             of workers"
                .to_owned(),
        );
    }
    Ok(Launch {
        id: job.id.to_owned(),
        mode: transport.mode,
        method: "TensorFlow with TF_CONFIG".to_owned(),
        head: None,
        hosts,
        notes,
        explain: explain(),
    })
}

pub(super) fn explain() -> Vec<Reason> {
    let reason = |what: &str, why: &str| Reason { what: what.to_owned(), why: why.to_owned() };
    vec![
        reason(
            "TF_CONFIG",
            "the same cluster on every host, with the host's task: `MultiWorkerMirroredStrategy` and \
             `ParameterServerStrategy` read it; it has addresses, so that no name resolution is needed",
        ),
        reason(
            "--ps N",
            "the last N hosts are parameter servers; the others are workers, the first of which is the chief unless \
             --chief reserves a host for it",
        ),
    ]
}

/// The role of each host, in their order.
fn roles(hosts: usize, ps: u32, chief: bool) -> Result<Vec<&'static str>, Refusal> {
    let ps = usize::try_from(ps).unwrap_or(usize::MAX);
    let Some(workers) = hosts.checked_sub(ps.saturating_add(chief.into())).filter(|left| *left > 0)
    else {
        let reason = format!(
            "{hosts} hosts are too few for {ps} parameter servers, {} and a worker",
            if chief { "a chief" } else { "no chief" }
        );
        return Err(Refusal { host: None, reason });
    };
    let chief = std::iter::repeat_n("chief", chief.into());
    Ok(chief
        .chain(std::iter::repeat_n("worker", workers))
        .chain(std::iter::repeat_n("ps", ps))
        .collect())
}

fn cluster(job: &Job, job_hosts: &[JobHost], roles: &[&str]) -> Value {
    let port = ranks::port(job);
    let mut cluster = Map::new();
    for (job_host, role) in job_hosts.iter().zip(roles) {
        let tasks = cluster.entry(*role).or_insert_with(|| json!([]));
        if let Some(tasks) = tasks.as_array_mut() {
            tasks.push(json!(format!("{}:{port}", job_host.url_host())));
        }
    }
    Value::Object(cluster)
}

/// The host's role, and its index among the hosts with this role.
fn task<'p>(roles: &[&'p str], at: usize) -> (&'p str, usize) {
    let kind = roles[at];
    (kind, roles[..at].iter().filter(|role| **role == kind).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_chief_workers_and_servers_in_their_order() {
        assert_eq!(roles(2, 0, false), Ok(vec!["worker", "worker"]));
        assert_eq!(roles(2, 1, false), Ok(vec!["worker", "ps"]));
        let all = roles(4, 1, true).expect("enough hosts");
        assert_eq!(all, ["chief", "worker", "worker", "ps"]);
        assert_eq!((task(&all, 2), task(&all, 3)), (("worker", 1), ("ps", 0)));
        for (hosts, ps, chief) in [(2, 2, false), (2, 1, true), (1, u32::MAX, true)] {
            assert!(roles(hosts, ps, chief).is_err());
        }
    }
}
