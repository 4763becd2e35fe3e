//! What would run where, and why so, as people read it.

use jobs::job::Mode;
use jobs::launch::{HostLaunch, Launch, Reason};

use super::job::head_script;

/// Everything that would run, as scripts that could be run by hand.
pub(super) fn plan(launch: &Launch) -> String {
    let mut text = format!("# {}\n", way(launch));
    for host in &launch.hosts {
        text.push_str(&on_host(host, launch.head.is_none()));
    }
    if let Some(head) = &launch.head {
        text.push_str("\n# here, started once:\n");
        text.push_str(body(&head_script(head)));
    }
    text
}

fn on_host(host: &HostLaunch, is_started: bool) -> String {
    let how = match is_started {
        true => "started once".to_owned(),
        false => format!("started {} times by what runs here", host.slots),
    };
    let (folder, script) = (&host.folder, host.script());
    format!("\n# on {}, {how}, as {folder}/{}:\n{}", host.host, HostLaunch::SCRIPT, body(&script))
}

/// Without the line that names its interpreter.
fn body(script: &str) -> &str {
    script.strip_prefix("#!/bin/sh\n").unwrap_or(script)
}

/// Who starts it, and over what its data goes: `Open MPI 4.1.4 with UCX, over RDMA`.
pub(super) fn way(launch: &Launch) -> String {
    match launch.mode {
        Mode::Tcp if launch.method.ends_with("TCP") => launch.method.clone(),
        Mode::Tcp => format!("{}, over TCP", launch.method),
        Mode::Rdma | Mode::Auto => format!("{}, over RDMA", launch.method),
    }
}

/// A paragraph for each.
pub(super) fn reasons(reasons: &[Reason]) -> String {
    let paragraphs = reasons.iter().map(|reason| format!("{}\n    {}\n", reason.what, reason.why));
    paragraphs.collect()
}
