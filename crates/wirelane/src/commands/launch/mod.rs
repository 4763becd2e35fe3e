//! `wirelane launch`: a job, started on several hosts at once.
//!
//! `probe.rs` reads what every host is like, [`jobs::launch`] plans what runs where, `job.rs` runs it. `supervisors.rs` has a
//! `member.rs` for each host, with the [`Supervisor`](remote::Supervisor) that keeps the job there, and waits for their `events.rs`;
//! `job_output.rs` shows what the job prints and writes it to logs. Counters before and after tell what transferred the data
//! ([`jobs::proof`]). `text.rs` prints instead.

mod args;
mod events;
mod job;
mod job_output;
mod member;
mod probe;
mod supervisors;
mod text;

use jobs::job::Mode;
use jobs::launch::{Framework, Job, Launch, Refusal};
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::json;

use crate::output;
use crate::output::{Exit, Failure};
use crate::settings::Global;
pub(crate) use args::LaunchArgs;
use job::{Ended, Outcome, Planned};
use job_output::JobOutput;
use probe::{Found, Wanted};
use remote::Shell;

pub(crate) fn run(_global: &Global, args: &LaunchArgs) -> Result<Exit, Failure> {
    let framework = args.framework()?;
    if args.explain && args.command.is_empty() {
        return explain(framework, args);
    }
    let Some(program) = args.command.first() else {
        return Err(Failure::usage("launch: no command is given; write it after `--`"));
    };
    let (path, directory) = (text_of("PATH"), directory()?);
    let wanted = Wanted { program, path: &path, directory: &directory };
    let found = probe::reach(&args.named.inventory()?.hosts, &wanted)?;
    let launch = plan(args, framework, &wanted, &found)?;
    for note in &launch.notes {
        output::note(&format!("note: {note}"));
    }
    if args.explain {
        return tell(args, &text::reasons(&launch.explain), &launch.explain);
    }
    if args.dry_run {
        return tell(args, &text::plan(&launch), &launch);
    }
    carry_out(args, &launch, &found)
}

/// Of this machine alone: nothing is asked of others, and no command is needed.
fn explain(framework: Framework, args: &LaunchArgs) -> Result<Exit, Failure> {
    let path = text_of("PATH");
    let wanted = Wanted { program: "sh", path: &path, directory: "/" };
    let here = probe::tools(&Shell::on("localhost")?, &wanted)?;
    let reasons = jobs::launch::explain(framework, &here);
    tell(args, &text::reasons(&reasons), &reasons)
}

fn tell(args: &LaunchArgs, text: &str, value: &impl serde::Serialize) -> Result<Exit, Failure> {
    match args.json {
        true => output::json(value)?,
        false => output::answer(text)?,
    }
    Ok(Exit::Done)
}

fn plan(
    args: &LaunchArgs,
    framework: Framework,
    wanted: &Wanted,
    found: &[Found],
) -> Result<Launch, Failure> {
    let here = probe::tools(&Shell::on("localhost")?, wanted)?;
    let sites: Vec<_> = found.iter().map(Found::site).collect();
    let id = random_id()?;
    let reach = match probe::agent(found) {
        Some(_) => vec!["sh".to_owned(), format!("{}/{}", job::head_folder(&id), job::AGENT)],
        None => probe::ssh(),
    };
    let job = Job {
        id: &id,
        framework,
        mode: args.mode.into(),
        command: &args.command,
        directory: wanted.directory,
        path: wanted.path,
        ssh: &reach,
        environment: &args.variables()?,
        port: args.port,
        nccl: args.nccl,
    };
    jobs::launch::plan(&job, &here, &sites)
        .map_err(|refusal: Refusal| Failure::no(format!("launch: {refusal}; nothing was started")))
}

fn carry_out(args: &LaunchArgs, launch: &Launch, found: &[Found]) -> Result<Exit, Failure> {
    let mut output = JobOutput::open(launch, args.log_dir.as_deref(), args.json)?;
    output.keep("plan.txt", &text::plan(launch));
    output::note(&format!("job {}: {}", launch.id, text::way(launch)));
    let awaited = args.awaited(found.len());
    let planned = Planned { launch, found, asked: args.mode.into(), awaited };
    let ended = planned.run(&mut output)?;
    output.keep("proof.txt", &format!("{}\n", ended.proof.line()));
    report(args, launch, &ended, &output)?;
    verdict(&ended)?;
    let is_asked = Mode::from(args.mode) == Mode::Rdma && found.len() > 1;
    match is_asked && ended.proof.is_known && ended.proof.rdma.is_none() {
        true => {
            Err(Failure::no("launch: --mode rdma: the job ran to its end, but RDMA was not used"))
        }
        false => Ok(Exit::Done),
    }
}

fn report(
    args: &LaunchArgs,
    launch: &Launch,
    ended: &Ended,
    output: &JobOutput,
) -> Result<(), Failure> {
    for detail in ended.proof.details() {
        output::note(&detail);
    }
    output::note(&ended.proof.line());
    output::note(&format!("logs: {}", output.folder().display()));
    for host in &ended.left {
        output::warning(&format!(
            "{host} did not confirm in time that the job has ended there; look for WIRELANE_JOB={} in its processes",
            launch.id
        ));
    }
    if args.json {
        output::json(&json!({
            "job": launch.id,
            "mode": launch.mode,
            "outcome": ended.outcome,
            "proof": ended.proof,
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
            format!("{who}: {}; everything else was ended", how(*code)),
        )),
        Outcome::Lost { why } => Err(Failure::failed(why.clone())),
        Outcome::Stopped => Err(Failure::command(
            INTERRUPTED,
            match ended.left.is_empty() {
                true => "launch: interrupted; everything was ended everywhere",
                false => "launch: interrupted; everything was ended, except as noted above",
            },
        )),
    }
}

/// A shell's code in words.
fn how(code: i32) -> String {
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

/// Where the job runs, on every host that has it.
fn directory() -> Result<String, Failure> {
    let folder = std::env::current_dir()
        .map_err(|error| Failure::failed(format!("launch: the folder here: {error}")))?;
    Ok(folder.to_string_lossy().into_owned())
}

/// Nobody can guess it, and so nobody can have made a job's folder before us.
fn random_id() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(16) => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        _ => Err(Failure::failed("launch: the system gives no random numbers — see getrandom(2)")),
    }
}

/// A shell's code for Ctrl-C.
const INTERRUPTED: u8 = 130;
const FAILED: u8 = 3;
