//! TensorFlow: the same command on every host, which reads its role from `TF_CONFIG`.

use serde_json::{Map, Value, json};

use super::job::Job;
use super::job_host::JobHost;
use super::job_transport::JobTransport;
use super::planned_launch::{Launch, Reason, Refusal};
use super::ranks;
use crate::environment::Mode;

/// Which hosts have which tasks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Servers {
    /// Number of parameter servers, on the last hosts.
    pub(super) ps: u32,
    /// Whether the first host is only the chief.
    pub(super) chief: bool,
    /// Whether hosts of parameter servers are workers too.
    pub(super) shared: bool,
}

/// A task and the index of its host.
type Task = (usize, &'static str);

pub(super) fn plan(
    job: &Job,
    job_hosts: &[JobHost],
    transport: &JobTransport,
    servers: Servers,
) -> Result<Launch, Refusal> {
    let tasks = tasks(job_hosts.len(), servers)?;
    let cluster = cluster(job, job_hosts, &tasks);
    let host = |(number, (at, role)): (usize, &Task)| {
        let index = tasks[..number].iter().filter(|(_, other)| other == role).count();
        let config = json!({ "cluster": cluster, "task": { "type": role, "index": index } });
        let mut own = vec![("TF_CONFIG".to_owned(), config.to_string())];
        let is_second = is_beside_another(&tasks, number);
        if is_second {
            // The GPUs belong to the worker.
            own.push(("CUDA_VISIBLE_DEVICES".to_owned(), String::new()));
        }
        let job_host = (*at, &job_hosts[*at]);
        let mut host = ranks::on_host(job, job_host, transport, job.command.to_vec(), own);
        // One process per task, which uses all GPUs of its host.
        host.slots = 1;
        if is_second {
            host.host.push_str("-ps");
            host.folder.push_str("-ps");
        }
        host
    };
    let hosts = tasks.iter().enumerate().map(host).collect();
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
        launcher: None,
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
             --chief reserves a host for it; with --ps-with-workers these hosts are workers too, and the GPUs are theirs",
        ),
    ]
}

/// The tasks: the chief, workers, then parameter servers.
fn tasks(hosts: usize, servers: Servers) -> Result<Vec<Task>, Refusal> {
    let Servers { ps, chief, shared } = servers;
    let ps = usize::try_from(ps).unwrap_or(usize::MAX);
    let first = usize::from(chief);
    let taken = if shared { first } else { ps.saturating_add(first) };
    let workers = hosts.checked_sub(taken).filter(|left| *left > 0 && ps <= hosts);
    let Some(workers) = workers else {
        let mut reason = format!(
            "{hosts} hosts are too few for {ps} parameter servers, {} and a worker",
            if chief { "a chief" } else { "no chief" }
        );
        if !shared && ps > 0 {
            reason.push_str("; --ps-with-workers lets them share hosts");
        }
        return Err(Refusal { host: None, reason });
    };
    let chief = (0..first).map(|at| (at, "chief"));
    let workers = (first..first + workers).map(|at| (at, "worker"));
    Ok(chief.chain(workers).chain((hosts - ps..hosts).map(|at| (at, "ps"))).collect())
}

/// Whether an earlier task is on the same host.
fn is_beside_another(tasks: &[Task], number: usize) -> bool {
    tasks[..number].iter().any(|(at, _)| *at == tasks[number].0)
}

/// The second task of a host has the next port.
fn cluster(job: &Job, job_hosts: &[JobHost], tasks: &[Task]) -> Value {
    let port = ranks::port(job);
    let mut cluster = Map::new();
    for (number, (at, role)) in tasks.iter().enumerate() {
        let port = match is_beside_another(tasks, number) {
            true => port.checked_add(1).unwrap_or(port - 1),
            false => port,
        };
        let tasks = cluster.entry(*role).or_insert_with(|| json!([]));
        if let Some(tasks) = tasks.as_array_mut() {
            tasks.push(json!(format!("{}:{port}", job_hosts[*at].url_host())));
        }
    }
    Value::Object(cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(hosts: usize, ps: u32, chief: bool, shared: bool) -> Result<Vec<Task>, Refusal> {
        tasks(hosts, Servers { ps, chief, shared })
    }

    #[test]
    fn hosts_are_chief_workers_and_servers_in_their_order() {
        assert_eq!(roles(2, 0, false, false), Ok(vec![(0, "worker"), (1, "worker")]));
        assert_eq!(roles(2, 1, false, false), Ok(vec![(0, "worker"), (1, "ps")]));
        let all = roles(4, 1, true, false).expect("enough hosts");
        assert_eq!(all, [(0, "chief"), (1, "worker"), (2, "worker"), (3, "ps")]);
        for (hosts, ps, chief) in [(2, 2, false), (2, 1, true), (1, u32::MAX, true)] {
            assert!(roles(hosts, ps, chief, false).is_err());
        }
    }

    #[test]
    fn servers_may_share_hosts_with_workers() {
        assert_eq!(roles(1, 1, false, true), Ok(vec![(0, "worker"), (0, "ps")]));
        let all = roles(3, 2, true, true).expect("enough hosts");
        assert_eq!(all, [(0, "chief"), (1, "worker"), (2, "worker"), (1, "ps"), (2, "ps")]);
        assert!(is_beside_another(&all, 3) && !is_beside_another(&all, 2));
        for (hosts, ps, chief) in [(1, 0, true), (2, 3, false), (1, u32::MAX, false)] {
            assert!(roles(hosts, ps, chief, true).is_err());
        }
    }
}
