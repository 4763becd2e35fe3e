//! Lanes between processes that know nothing of each other, and die.
#![allow(missing_docs, reason = "a test")]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use fabric::{
    Completion, Done, Fabric, Failure, Lane, Memory, Op, Pages, RemoteRegion, Rights, Side, Work,
    shm, tcp, wait,
};

/// What the child does, by its name.
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

/// A provider of libfabric's.
#[cfg(feature = "external-tests")]
fn ofi(provider: &str, address: Option<std::net::IpAddr>) -> Box<dyn Fabric> {
    use fabric::ofi::{Config, Domain, choose, survey};
    let choice = choose(&survey(None).unwrap(), Some(provider)).unwrap();
    Box::new(Domain::open(&choice, Config { address, ..Config::default() }).unwrap())
}

/// The other process, spoken to by lines of hexadecimal digits.
struct Peer {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Peer {
    /// This very program, as the child's part of one test.
    fn start(lane: &str) -> Peer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_childs_part", "--nocapture"]).env(CHILD, lane);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Peer { child, to, from: BufReader::new(from) }
    }

    fn say(&mut self, bytes: &[u8]) {
        writeln!(self.to, "{}", hex(bytes)).unwrap();
    }

    /// The runner of tests speaks on the same line; ours are marked.
    fn hear(&mut self) -> Vec<u8> {
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the child ended");
            if let Some((_, hex)) = line.split_once("child says: ") {
                return unhex(hex.trim());
            }
        }
    }

    fn connect(&mut self, fabric: &dyn Fabric) -> (Box<dyn Lane>, Vec<u8>) {
        let half = fabric.prepare_lane(Side::Dial).unwrap();
        self.say(&half.offer());
        let offer = self.hear();
        (half.connect(&offer, LIMIT).unwrap(), offer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child: grants 64 KiB that begin with its process number, echoes each message, adding one to
/// its first byte, until it is killed or its parent hangs up.
#[test]
fn the_childs_part() {
    let Ok(lane) = std::env::var(CHILD) else { return };
    let fabric = fabric(&lane);
    let half = fabric.prepare_lane(Side::Accept).unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    println_child(&half.offer());
    let mut lane = half.connect(&unhex(line.trim()), LIMIT).unwrap();
    let memory = Memory::allocate(65536, Pages::Plain).unwrap();
    memory.store(0, u64::from(std::process::id()));
    let region = fabric.register(&memory, Rights::ALL).unwrap();
    println_child(&lane.grant(&region).unwrap().to_bytes());
    let room = fabric.register(&Memory::allocate(8, Pages::Plain).unwrap(), Rights::NONE).unwrap();
    let mut ops = VecDeque::from([Op::receive(0, room.slice(..))]);
    let mut done = Vec::new();
    loop {
        lane.post(&mut ops);
        wait(&mut *lane, &mut done, LIMIT);
        for completion in done.drain(..) {
            match completion {
                Completion { outcome: Ok(Done::Received { .. }), work, .. } => {
                    room.memory().store(0, room.memory().load(0) + 1);
                    ops.push_back(Op::send(1, room.slice(..)));
                    ops.push_back(Op { token: 0, work });
                }
                Completion { outcome: Ok(_), .. } => {}
                Completion { outcome: Err(_), .. } => return,
            }
        }
    }
}

#[allow(clippy::print_stdout, reason = "the pipe to the parent")]
fn println_child(bytes: &[u8]) {
    println!("child says: {}", hex(bytes));
    std::io::stdout().flush().unwrap();
}

fn one(lane: &mut dyn Lane, op: Op) -> Completion {
    let mut done = Vec::new();
    lane.post(&mut VecDeque::from([op]));
    assert_eq!(wait(lane, &mut done, LIMIT), 1, "{done:?}");
    done.remove(0)
}

fn two_processes_talk_and_one_is_killed(name: &str) {
    let descriptors = open_descriptors();
    let socket = talk_and_kill(name);
    assert_eq!(open_descriptors(), descriptors, "every descriptor is closed again");
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    assert!(!sockets.contains(&socket), "{socket} is left");
}

/// Says which socket a lane of shared memory had.
fn talk_and_kill(name: &str) -> String {
    let mut peer = Peer::start(name);
    let here = fabric(name);
    let (mut lane, offer) = peer.connect(&*here);
    // The name that stands before the token in a shared-memory offer.
    let end = offer.len() - 16;
    let name_bytes = offer[end.saturating_sub(16)..end].try_into();
    let token = name_bytes.map_or(0, u128::from_le_bytes);
    let socket = format!("wirelane-{token:032x}");
    let window = lane.import(&RemoteRegion::from_bytes(&peer.hear()).unwrap()).expect("imported");
    let memory = Memory::allocate(65536, Pages::Plain).unwrap();
    let region = here.register(&memory, Rights::ALL).unwrap();

    let read = one(&mut *lane, Op::read(1, region.slice(..8), window.at(0)));
    assert_eq!(read.outcome, Ok(Done::Placed));
    assert_eq!(region.memory().load(0), u64::from(peer.child.id()), "the other's memory");
    let work = Work::FetchAdd { old: region.slice(8..16), at: window.at(8), add: 5 };
    assert_eq!(one(&mut *lane, Op { token: 1, work }).outcome, Ok(Done::Old(0)));

    // A message there and back.
    region.memory().store(0, 41);
    let room = here.register(&memory, Rights::NONE).unwrap();
    lane.post(&mut VecDeque::from([
        Op::receive(2, room.slice(64..72)),
        Op::send(1, region.slice(..8)),
    ]));
    let mut done = Vec::new();
    while done.len() < 2 {
        assert!(wait(&mut *lane, &mut done, LIMIT) > 0, "{done:?}");
    }
    assert_eq!(memory.load(64), 42);

    // A file there would outlive a process that is killed. Other tests use the folder at the same
    // time, so its entries say nothing of ours; what is mapped here does.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert_eq!(maps.contains("/dev/shm/"), name == "ofi shm", "{maps}");

    // Killed without a word, while we sleep for it.
    lane.post(&mut VecDeque::from([Op::receive(9, room.slice(64..72))]));
    peer.child.kill().unwrap();
    peer.child.wait().unwrap();
    done.clear();
    wait(&mut *lane, &mut done, LIMIT);
    assert_eq!((done[0].token, done[0].outcome), (9, Err(Failure::PeerGone)));
    let late = one(&mut *lane, Op::write(3, region.slice(..8), window.at(0)));
    assert_eq!(late.outcome, Err(Failure::Flushed));
    assert_eq!(lane.stats().ended(), Some(Failure::PeerGone));
    socket
}

/// All of it in one test, since descriptors are counted for the whole process.
#[test]
fn processes_talk_and_die_and_nothing_is_left() {
    two_processes_talk_and_one_is_killed("tcp");
    two_processes_talk_and_one_is_killed("shm");
    // What libfabric keeps open for itself, and what it leaves of a process that was killed, is not counted.
    #[cfg(feature = "external-tests")]
    for name in ["ofi tcp", "ofi shm"] {
        talk_and_kill(name);
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
