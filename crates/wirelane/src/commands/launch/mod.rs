//! `wirelane launch`: starts a job on several hosts.
//!
//! `probe.rs` reads every host, [`jobs::launch`] plans what runs where, `job.rs` runs it. `supervisors.rs` has a
//! `host_supervisor.rs` for each host, with the [`Supervisor`](remote::Supervisor) that runs the job there, and waits
//! for their `events.rs`; `job_output.rs` prints and logs the output of the job. Counters before and after show what
//! transferred the data ([`jobs::traffic`]). `text.rs` prints plans and explanations instead.

mod args;
mod events;
mod host_supervisor;
mod job;
mod job_output;
mod probe;
mod supervisors;
mod text;

use std::collections::BTreeSet;

use jobs::environment::Mode;
use jobs::launch::{Framework, Job, Launch, Refusal};
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::json;

use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;
pub(crate) use args::LaunchArgs;
use job::{Ended, Outcome, Planned};
use job_output::JobOutput;
use probe::{ProbeRequest, ProbedHost};
use remote::Shell;

pub(crate) fn run(_global: &Global, args: &LaunchArgs) -> Result<Exit, Failure> {
    let framework = args.framework()?;
    if args.explain && args.command.is_empty() {
        return explain(framework, args);
    }
    let Some(program) = args.command.first() else {
        return Err(Failure::usage("launch: no command; write it after `--`"));
    };
    let (path, directory) = (text_of("PATH"), directory()?);
    let request = ProbeRequest { program, path: &path, directory: &directory };
    let starts_nothing = args.dry_run || args.explain;
    let hosts = args.hosts.inventory()?.hosts;
    let (found, assumptions) = probe::probe_all(&hosts, &request, starts_nothing)?;
    for note in &assumptions {
        output::note(&format!("note: {note}"));
    }
    let mut launch = plan(args, framework, &request, &found)?;
    for note in &launch.notes {
        output::note(&format!("note: {note}"));
    }
    launch.notes.extend(assumptions);
    if args.explain {
        return print(args, &text::reasons(&launch.explain), &launch.explain);
    }
    if args.dry_run {
        return print(args, &text::plan(&launch), &launch);
    }
    run_job(args, &launch, &found)
}

/// Explains for this machine: reads no other hosts, and needs no command.
fn explain(framework: Framework, args: &LaunchArgs) -> Result<Exit, Failure> {
    let path = text_of("PATH");
    let request = ProbeRequest { program: "sh", path: &path, directory: "/" };
    let here = probe::tools(&Shell::on("localhost")?, &request)?;
    let reasons = jobs::launch::explain(framework, &here);
    print(args, &text::reasons(&reasons), &reasons)
}

fn print(args: &LaunchArgs, text: &str, value: &impl serde::Serialize) -> Result<Exit, Failure> {
    match args.json {
        true => output::json(value)?,
        false => output::answer(text)?,
    }
    Ok(Exit::Done)
}

fn plan(
    args: &LaunchArgs,
    framework: Framework,
    request: &ProbeRequest,
    found: &[ProbedHost],
) -> Result<Launch, Failure> {
    let here = probe::tools(&Shell::on("localhost")?, request)?;
    let job_hosts: Vec<_> = found.iter().map(ProbedHost::job_host).collect();
    let id = random_id()?;
    let ssh = match probe::ssh_replacement(found) {
        Some(_) => vec![
            "sh".to_owned(),
            format!("{}/{}", job::launcher_folder(&id), job::SSH_REPLACEMENT_FILE),
        ],
        None => probe::ssh(),
    };
    let job = Job {
        id: &id,
        framework,
        mode: args.mode.into(),
        command: &args.command,
        directory: request.directory,
        path: request.path,
        ssh: &ssh,
        environment: &args.variables()?,
        ranks: args.ranks(),
        port: args.port,
        nccl: args.nccl,
    };
    jobs::launch::plan(&job, &here, &job_hosts)
        .map_err(|refusal: Refusal| Failure::no(format!("launch: {refusal}; nothing was started")))
}

fn run_job(args: &LaunchArgs, launch: &Launch, found: &[ProbedHost]) -> Result<Exit, Failure> {
    let mut output = JobOutput::open(launch, args.log_dir.as_deref(), args.json)?;
    output.write_file("plan.txt", &text::plan(launch));
    output::note(&format!("job {}: {}", launch.id, text::transport(launch)));
    let awaited = args.awaited(launch.hosts.len());
    let planned = Planned { launch, found, requested: args.mode.into(), awaited };
    let ended = planned.run(&mut output)?;
    output.write_file("traffic.txt", &format!("{}\n", ended.traffic.line()));
    report(args, launch, &ended, &output)?;
    verdict(&ended)?;
    output.check()?;
    let hosts: BTreeSet<usize> = launch.hosts.iter().map(|host| host.host_index).collect();
    let is_required = Mode::from(args.mode) == Mode::Rdma && hosts.len() > 1;
    match is_required && ended.traffic.is_known && ended.traffic.rdma.is_none() {
        true => Err(Failure::no("launch: --mode rdma: the job succeeded, but RDMA was not used")),
        false => Ok(Exit::Done),
    }
}

fn report(
    args: &LaunchArgs,
    launch: &Launch,
    ended: &Ended,
    output: &JobOutput,
) -> Result<(), Failure> {
    for detail in ended.traffic.details() {
        output::note(&detail);
    }
    output::note(&ended.traffic.line());
    output::note(&format!("logs: {}", output.folder().display()));
    for host in &ended.unconfirmed {
        output::warning(&format!(
            "{host} did not confirm in time that the job has ended there; look for processes with WIRELANE_JOB={}",
            launch.id
        ));
    }
    if args.json {
        output::json(&json!({
            "job": launch.id,
            "mode": launch.mode,
            "outcome": ended.outcome,
            "traffic": ended.traffic,
            "logs": output.folder(),
        }))?;
    }
    Ok(())
}

fn verdict(ended: &Ended) -> Result<(), Failure> {
    match &ended.outcome {
        Outcome::Done => Ok(()),
        Outcome::Failed { who, code } => Err(Failure::command(
            u8::try_from(*code).unwrap_or(FAILED),
            format!("{who}: {}; all other processes were ended", describe(*code)),
        )),
        Outcome::Lost { why } => Err(Failure::failed(why.clone())),
        Outcome::Stopped => Err(Failure::command(
            INTERRUPTED,
            match ended.unconfirmed.is_empty() {
                true => "launch: interrupted; the job was ended on all hosts",
                false => "launch: interrupted; the job was ended, except as noted above",
            },
        )),
    }
}

/// An exit code of a shell as text.
fn describe(code: i32) -> String {
    match code {
        126 => "the command cannot be run (code 126)".to_owned(),
        127 => "the command was not found (code 127)".to_owned(),
        129..=192 => format!("the command was ended by signal {} (code {code})", code - 128),
        code => format!("the command failed with code {code}"),
    }
}

fn text_of(variable: &str) -> String {
    std::env::var(variable).unwrap_or_default()
}

/// The working directory of the job, on every host that has it.
fn directory() -> Result<String, Failure> {
    let folder = std::env::current_dir()
        .map_err(|error| Failure::failed(format!("launch: read the working directory: {error}")))?;
    Ok(folder.to_string_lossy().into_owned())
}

/// Random, so that other users cannot create the job's directory first.
fn random_id() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(16) => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        _ => Err(Failure::failed("launch: no random numbers from the system — see getrandom(2)")),
    }
}

/// The exit code of shells for Ctrl-C.
const INTERRUPTED: u8 = 130;
const FAILED: u8 = 3;
