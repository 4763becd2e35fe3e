//! Plans and explanations as text.

use jobs::environment::Mode;
use jobs::launch::{HostLaunch, Launch, Reason};

use super::job::launcher_script;
use crate::output::wrap;

/// Everything that would run, as scripts.
pub(super) fn plan(launch: &Launch) -> String {
    let mut text = format!("# {}\n", transport(launch));
    for host in &launch.hosts {
        text.push_str(&on_host(host, launch.launcher.is_none()));
    }
    if let Some(launcher) = &launch.launcher {
        text.push_str("\n# on this machine, started once:\n");
        text.push_str(body(&launcher_script(launcher)));
    }
    text
}

fn on_host(host: &HostLaunch, is_started: bool) -> String {
    let how = match is_started {
        true => "started once".to_owned(),
        false => format!("started {} times by the launcher", host.slots),
    };
    let (folder, script) = (&host.folder, host.script());
    format!("\n# on {}, {how}, as {folder}/{}:\n{}", host.host, HostLaunch::SCRIPT, body(&script))
}

/// A script without its `#!` line.
fn body(script: &str) -> &str {
    script.strip_prefix("#!/bin/sh\n").unwrap_or(script)
}

/// The framework and the transport: `Open MPI 4.1.4 with UCX, over RDMA`.
pub(super) fn transport(launch: &Launch) -> String {
    match launch.mode {
        Mode::Tcp if launch.method.ends_with("TCP") => launch.method.clone(),
        Mode::Tcp => format!("{}, over TCP", launch.method),
        Mode::Rdma | Mode::Auto => format!("{}, over RDMA", launch.method),
    }
}

/// A paragraph for each reason.
pub(super) fn reasons(reasons: &[Reason]) -> String {
    let paragraph =
        |reason: &Reason| wrap::line("", &reason.what) + &wrap::line("    ", &reason.why);
    reasons.iter().map(paragraph).collect()
}
