//! Peers in separate namespaces, like containers: the link uses a transport that works.

use std::process::Command;

use fabric::link::{Endpoint, EventKind, Transport};

use crate::pair::{anywhere, settings};
use crate::peer::{ARGUMENTS, LocalEnd, Peer};

const ALL: [Transport; 2] = [Transport::Shm, Transport::Tcp];

/// `unshare` with these namespaces, as root or in a user namespace. `None`: not possible on this machine.
fn unshare(namespaces: &[&str]) -> Option<Command> {
    let mut command = Command::new("unshare");
    if !rustix::process::getuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(namespaces);
    let mut test = Command::new("unshare");
    let test = test.args(command.get_args()).arg("true").output();
    match test {
        Ok(output) if output.status.success() => Some(command),
        other => {
            eprintln!("skipped: unshare {namespaces:?} is not possible here: {other:?}");
            None
        }
    }
}

#[test]
fn another_container_in_the_same_network_is_reached() {
    let namespaces =
        ["--mount", "--pid", "--ipc", "--uts", "--fork", "--mount-proc", "--kill-child"];
    let Some(mut command) = unshare(&namespaces) else { return };
    command.arg(std::env::current_exe().unwrap()).args(ARGUMENTS);
    let peer = Peer::start_by(command, &ALL, anywhere());
    let mut local = LocalEnd::connect(&ALL, peer.address);
    let status = local.link.report().status();
    eprintln!("{:?}: {}", status.transport, status.why);
    assert!(matches!(status.transport, Some("shm" | "tcp")), "{status:#?}");
    local.exercise();
    local.exercise();
    assert_eq!(local.link.ended(), None);
}

/// Both ends in separate network namespaces, connected by a veth pair. They recognise that they are on one host; but the
/// abstract socket that sets up shared memory is not visible in another network namespace.
#[test]
fn a_container_with_its_own_network_is_reached_over_tcp() {
    let Some(mut command) = unshare(&["--net", "--mount"]) else { return };
    let script = r#"set -e
ip link set lo up
ip link add near type veth peer name far
unshare --net --mount --pid --fork --mount-proc --kill-child sh -ec '
    until ip link set far up 2>/dev/null; do sleep 0.01; done
    ip link set lo up
    ip address add 10.99.0.2/24 dev far
    exec "$@"' sh "$0" --exact peer::the_other_process --nocapture >"$PIPE" &
until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link set far netns $!
ip address add 10.99.0.1/24 dev near
ip link set near up
"$0" --exact containers::the_local_container --nocapture || { kill -9 $!; exit 1; }
kill -9 $!
"#;
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("output");
    command.args(["sh", "-c", script]).arg(std::env::current_exe().unwrap());
    command.env("PIPE", &pipe).env(LOCAL_END, "10.99.0.2:7471");
    command.env("WIRELANE_TEST_CLASSES", "shm,tcp").env("WIRELANE_TEST_ADDRESS", "10.99.0.2:7471");
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("reached over tcp"), "{printed}\n{errors}");
}

const LOCAL_END: &str = "WIRELANE_TEST_LOCAL_END";

/// The local end, in its network namespace; does nothing unless started by the test above.
#[test]
#[allow(clippy::print_stdout, reason = "read by the test that runs it")]
fn the_local_container() {
    let Ok(address) = std::env::var(LOCAL_END) else { return };
    let address = address.parse().unwrap();
    let started = std::time::Instant::now();
    // Until the peer listens.
    while std::net::TcpStream::connect(address).is_err() {
        assert!(started.elapsed() < crate::pair::LIMIT, "the peer does not listen");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut local = LocalEnd::connect_by(Endpoint::new(settings()).unwrap(), address);
    local.exercise();
    let status = local.link.report().status();
    assert_eq!(status.transport, Some("tcp"), "{status:#?}");
    let refused = status.events.iter().find(|event| event.what == EventKind::RailSetupFailed);
    println!("reached over tcp; shared memory: {}", refused.map_or("", |event| &event.why));
}
