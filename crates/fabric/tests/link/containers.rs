//! Peers in namespaces of their own, as containers are: whatever truly works is chosen.

use std::process::Command;

use fabric::link::{Class, Endpoint, Happening};

use crate::pair::{anywhere, settings};
use crate::peer::{ARGUMENTS, Near, Peer};

const ALL: [Class; 2] = [Class::Shm, Class::Tcp];

/// `unshare` with these namespaces, as root or as anybody. `None`: this machine does not let us.
fn unshare(namespaces: &[&str]) -> Option<Command> {
    let mut command = Command::new("unshare");
    if !rustix::process::getuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(namespaces);
    let mut trial = Command::new("unshare");
    let trial = trial.args(command.get_args()).arg("true").output();
    match trial {
        Ok(output) if output.status.success() => Some(command),
        other => {
            eprintln!("skipped: unshare {namespaces:?} is not possible here: {other:?}");
            None
        }
    }
}

#[test]
fn another_container_of_one_pod_shares_the_network_and_is_reached() {
    let namespaces =
        ["--mount", "--pid", "--ipc", "--uts", "--fork", "--mount-proc", "--kill-child"];
    let Some(mut command) = unshare(&namespaces) else { return };
    command.arg(std::env::current_exe().unwrap()).args(ARGUMENTS);
    let peer = Peer::start_by(command, &ALL, anywhere());
    let mut near = Near::connect(&ALL, peer.address);
    let explained = near.link.report().explain();
    eprintln!("{:?}, since {}", explained.lane, explained.why);
    assert!(matches!(explained.lane, Some("shm" | "tcp")), "{explained:#?}");
    near.exercise();
    near.exercise();
    assert_eq!(near.link.ended(), None);
}

/// Both ends in networks of their own, joined by a wire. They are on one host and see it; but the socket
/// by which shared memory begins is not seen in another network.
#[test]
fn a_container_with_a_network_of_its_own_is_reached_by_tcp() {
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
"$0" --exact containers::the_near_container --nocapture || { kill -9 $!; exit 1; }
kill -9 $!
"#;
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("says");
    command.args(["sh", "-c", script]).arg(std::env::current_exe().unwrap());
    command.env("PIPE", &pipe).env(NEAR, "10.99.0.2:7471");
    command.env("WIRELANE_TEST_CLASSES", "shm,tcp").env("WIRELANE_TEST_ADDRESS", "10.99.0.2:7471");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("reached by tcp"), "{said}\n{errors}");
}

const NEAR: &str = "WIRELANE_TEST_NEAR";

/// The near end, within its network: nothing where it is not wanted.
#[test]
#[allow(clippy::print_stdout, reason = "read by the test that runs it")]
fn the_near_container() {
    let Ok(address) = std::env::var(NEAR) else { return };
    let address = address.parse().unwrap();
    let begun = std::time::Instant::now();
    // Until the other one listens.
    while std::net::TcpStream::connect(address).is_err() {
        assert!(begun.elapsed() < crate::pair::LIMIT, "nobody listens");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut near = Near::connect_by(Endpoint::new(settings()).unwrap(), address);
    near.exercise();
    let explained = near.link.report().explain();
    assert_eq!(explained.lane, Some("tcp"), "{explained:#?}");
    let refused = explained.events.iter().find(|event| event.what == Happening::RailRefused);
    println!("reached by tcp; shared memory: {}", refused.map_or("", |event| &event.why));
}
