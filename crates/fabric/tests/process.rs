//! Lanes between processes, one of which is killed.
#![allow(missing_docs, reason = "a test")]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use fabric::{
    Completion, Done, Fabric, Failure, Lane, Memory, Op, Pages, RemoteRegion, Rights, Side, Work,
    shm, tcp, wait,
};

/// Set in the child: the name of its lane.
const CHILD: &str = "WIRELANE_TEST_CHILD";
const LIMIT: Duration = Duration::from_secs(30);

fn fabric(lane: &str) -> Box<dyn Fabric> {
    match lane {
        "shm" => Box::new(shm::Shm::default()),
        #[cfg(feature = "external-tests")]
        "ofi tcp" => ofi("tcp", Some([127, 0, 0, 1].into())),
        #[cfg(feature = "external-tests")]
        "ofi shm" => ofi("shm", None),
        _ => Box::new(tcp::Tcp::default()),
    }
}

/// A libfabric provider.
#[cfg(feature = "external-tests")]
fn ofi(provider: &str, address: Option<std::net::IpAddr>) -> Box<dyn Fabric> {
    use fabric::ofi::{Config, Domain, choose, list_providers};
    let choice = choose(&list_providers(None).unwrap(), Some(provider)).unwrap();
    Box::new(Domain::open(&choice, Config { address, ..Config::default() }).unwrap())
}

/// The other process, connected by lines of hexadecimal digits.
struct Peer {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts this program again as the child.
    fn start(lane: &str) -> Peer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_process", "--nocapture"]).env(CHILD, lane);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Peer { child, to, from: BufReader::new(from) }
    }

    fn send(&mut self, bytes: &[u8]) {
        writeln!(self.to, "{}", hex(bytes)).unwrap();
    }

    /// The test runner prints to the same stream; our lines have a prefix.
    fn receive(&mut self) -> Vec<u8> {
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the child ended");
            if let Some((_, hex)) = line.split_once("child: ") {
                return unhex(hex.trim());
            }
        }
    }

    fn connect(&mut self, fabric: &dyn Fabric) -> (Box<dyn Lane>, Vec<u8>) {
        let unconnected = fabric.prepare_lane(Side::Dial).unwrap();
        self.send(&unconnected.offer());
        let offer = self.receive();
        (unconnected.connect(&offer, LIMIT).unwrap(), offer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child: grants 64 KiB that start with its process id, and echoes each message, incremented
/// by one, until it is killed or its parent disconnects.
#[test]
fn child_process() {
    let Ok(lane) = std::env::var(CHILD) else { return };
    let fabric = fabric(&lane);
    let unconnected = fabric.prepare_lane(Side::Accept).unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    send_to_parent(&unconnected.offer());
    let mut lane = unconnected.connect(&unhex(line.trim()), LIMIT).unwrap();
    let memory = Memory::allocate(65536, Pages::Plain).unwrap();
    memory.store(0, u64::from(std::process::id()));
    let region = fabric.register(&memory, Rights::ALL).unwrap();
    send_to_parent(&lane.grant(&region).unwrap().to_bytes());
    let buffer =
        fabric.register(&Memory::allocate(8, Pages::Plain).unwrap(), Rights::NONE).unwrap();
    let mut ops = VecDeque::from([Op::receive(0, buffer.slice(..))]);
    let mut done = Vec::new();
    loop {
        lane.post(&mut ops);
        wait(&mut *lane, &mut done, LIMIT);
        for completion in done.drain(..) {
            match completion {
                Completion { outcome: Ok(Done::Received { .. }), work, .. } => {
                    buffer.memory().store(0, buffer.memory().load(0) + 1);
                    ops.push_back(Op::send(1, buffer.slice(..)));
                    ops.push_back(Op { op_id: 0, work });
                }
                Completion { outcome: Ok(_), .. } => {}
                Completion { outcome: Err(_), .. } => return,
            }
        }
    }
}

#[allow(clippy::print_stdout, reason = "the pipe to the parent")]
fn send_to_parent(bytes: &[u8]) {
    println!("child: {}", hex(bytes));
    std::io::stdout().flush().unwrap();
}

fn one(lane: &mut dyn Lane, op: Op) -> Completion {
    let mut done = Vec::new();
    lane.post(&mut VecDeque::from([op]));
    assert_eq!(wait(lane, &mut done, LIMIT), 1, "{done:?}");
    done.remove(0)
}

fn two_processes_exchange_messages_and_one_is_killed(name: &str) {
    let descriptors = open_descriptors();
    let socket = exchange_and_kill(name);
    assert_eq!(open_descriptors(), descriptors, "descriptors were leaked");
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    assert!(!sockets.contains(&socket), "{socket} is left");
}

/// Returns the name of a shared-memory lane's socket.
fn exchange_and_kill(name: &str) -> String {
    let mut peer = Peer::start(name);
    let here = fabric(name);
    let (mut lane, offer) = peer.connect(&*here);
    // The name before the lane secret in a shared-memory offer.
    let end = offer.len() - 16;
    let socket_name = offer[end.saturating_sub(16)..end].try_into();
    let socket_name = socket_name.map_or(0, u128::from_le_bytes);
    let socket = format!("wirelane-{socket_name:032x}");
    let window =
        lane.import(&RemoteRegion::from_bytes(&peer.receive()).unwrap()).expect("imported");
    let memory = Memory::allocate(65536, Pages::Plain).unwrap();
    let region = here.register(&memory, Rights::ALL).unwrap();

    let read = one(&mut *lane, Op::read(1, region.slice(..8), window.at(0)));
    assert_eq!(read.outcome, Ok(Done::Placed));
    assert_eq!(region.memory().load(0), u64::from(peer.child.id()), "not the peer's memory");
    let work = Work::FetchAdd { old: region.slice(8..16), at: window.at(8), add: 5 };
    assert_eq!(one(&mut *lane, Op { op_id: 1, work }).outcome, Ok(Done::Old(0)));

    // A message there and back.
    region.memory().store(0, 41);
    let buffer = here.register(&memory, Rights::NONE).unwrap();
    lane.post(&mut VecDeque::from([
        Op::receive(2, buffer.slice(64..72)),
        Op::send(1, region.slice(..8)),
    ]));
    let mut done = Vec::new();
    while done.len() < 2 {
        assert!(wait(&mut *lane, &mut done, LIMIT) > 0, "{done:?}");
    }
    assert_eq!(memory.load(64), 42);

    // A file in /dev/shm would outlive a killed process. Other tests use the folder at the same
    // time, so check our mappings instead of its entries.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert_eq!(maps.contains("/dev/shm/"), name == "ofi shm", "{maps}");

    // Killed while we sleep for its message.
    lane.post(&mut VecDeque::from([Op::receive(9, buffer.slice(64..72))]));
    peer.child.kill().unwrap();
    peer.child.wait().unwrap();
    done.clear();
    wait(&mut *lane, &mut done, LIMIT);
    assert_eq!((done[0].op_id, done[0].outcome), (9, Err(Failure::PeerGone)));
    let late = one(&mut *lane, Op::write(3, region.slice(..8), window.at(0)));
    assert_eq!(late.outcome, Err(Failure::Flushed));
    assert_eq!(lane.stats().ended(), Some(Failure::PeerGone));
    socket
}

/// One test for all, since descriptors are counted for the whole process.
#[test]
fn killed_processes_leave_nothing_behind() {
    two_processes_exchange_messages_and_one_is_killed("tcp");
    two_processes_exchange_messages_and_one_is_killed("shm");
    // Without counting: libfabric keeps descriptors open, and leaves files of killed processes.
    #[cfg(feature = "external-tests")]
    for name in ["ofi tcp", "ofi shm"] {
        exchange_and_kill(name);
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}
