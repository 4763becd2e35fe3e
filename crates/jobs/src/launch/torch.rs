//! PyTorch: torchrun on every host, which starts the host's ranks.

use super::arguments::Arguments;
use super::job::Job;
use super::job_host::JobHost;
use super::job_transport::JobTransport;
use super::planned_launch::{Launch, Refusal};
use super::ranks;
use super::tools::Torch;
use crate::environment::Mode;

pub(super) fn plan(
    job: &Job,
    job_hosts: &[JobHost],
    transport: &JobTransport,
) -> Result<Launch, Refusal> {
    let first = job_hosts.first().map(JobHost::url_host).unwrap_or_default();
    let version = job_hosts.iter().map(installed).collect::<Result<Vec<_>, _>>()?;
    let hosts = ranks::on_hosts(job, job_hosts, transport, |at, job_host| {
        (command(job, job_hosts.len(), at, job_host, &first).words, interface(job_host))
    });
    let explain = job_hosts
        .first()
        .map(|job_host| command(job, job_hosts.len(), 0, job_host, &first).reasons);
    let mut notes = ranks::notes(job_hosts, transport);
    if transport.mode == Mode::Rdma
        && job_hosts.iter().all(|job_host| job_host.node.gpus.is_empty())
    {
        notes.push(
            "no host has a GPU: PyTorch then uses gloo over TCP; RDMA is used by NCCL between GPUs"
                .to_owned(),
        );
    }
    Ok(Launch {
        id: job.id.to_owned(),
        mode: transport.mode,
        method: format!(
            "torchrun of PyTorch {}",
            version.first().copied().unwrap_or("of unknown version")
        ),
        launcher: None,
        hosts,
        notes,
        explain: explain.unwrap_or_default(),
    })
}

/// For a pod, where the environment has the other arguments.
pub(crate) fn torchrun(command: &[String]) -> Vec<String> {
    let before = ["torchrun"].into_iter().chain(is_program(command).then_some(NO_PYTHON));
    before.map(str::to_owned).chain(command.iter().cloned()).collect()
}

fn is_first_series(job_host: &JobHost) -> bool {
    let version = job_host.tools.torch.as_ref().and_then(|torch| torch.version.as_deref());
    version.is_some_and(|version| version.starts_with("1."))
}

/// Not a Python script, which torchrun would start with Python.
fn is_program(command: &[String]) -> bool {
    command.first().is_some_and(|program| !program.ends_with(".py"))
}

/// PyTorch's version there.
fn installed<'s>(job_host: &'s JobHost) -> Result<&'s str, Refusal> {
    let torch = job_host.tools.torch.as_ref().ok_or_else(|| {
        let python = job_host.tools.python.as_deref().unwrap_or("python3, which is not installed");
        job_host.refusal(format!(
            "it has no PyTorch (checked with {python}): install torch there, or activate its environment here if it has \
             the same path there"
        ))
    })?;
    Ok(torch.version.as_deref().unwrap_or("of unknown version"))
}

fn command(job: &Job, hosts: usize, at: usize, job_host: &JobHost, first: &str) -> Arguments {
    let mut to = Arguments::default();
    match job_host.tools.torch.as_ref().and_then(|torch: &Torch| torch.torchrun.as_deref()) {
        Some(_) => to.plain(["torchrun"]),
        None => to.plain(["python3", "-m", "torch.distributed.run"]),
    }
    // With underscores, which every version accepts; dashes came with PyTorch 2.
    to.plain([format!("--nnodes={hosts}")]);
    to.add(
        &[&format!("--node_rank={at}")],
        "the host's index in the list, so that rank 0 is on the first host; with --rdzv_backend=c10d torchrun would assign \
         ranks itself and ignore this",
    );
    to.add(
        &[&format!("--nproc_per_node={}", job_host.ranks())],
        "one process for each slot or GPU of the host",
    );
    to.add(
        &[&format!("--master_addr={}", first.trim_matches(['[', ']']))],
        "the first host, with its address for the others",
    );
    to.add(
        &[&format!("--master_port={}", ranks::port(job))],
        "derived from the job's ID, so that jobs on one host do not conflict",
    );
    if is_first_series(job_host) {
        to.add(
            &["--redirects=9:0", "--tee=9:0"],
            "output is not redirected, set for one rank: torchrun of PyTorch 1 fails with Python 3.11 on its \
             default, which sets it for all",
        );
    }
    if is_program(job.command) {
        to.add(&[NO_PYTHON], "the command is not a Python script");
    }
    to.plain(job.command.iter().cloned());
    to
}

/// By default gloo uses the address of the host name, which is often 127.0.1.1.
fn interface(job_host: &JobHost) -> Vec<(String, String)> {
    let Some((interface, _)) = job_host.interface() else { return Vec::new() };
    vec![("GLOO_SOCKET_IFNAME".to_owned(), interface.to_owned())]
}

const NO_PYTHON: &str = "--no_python";
