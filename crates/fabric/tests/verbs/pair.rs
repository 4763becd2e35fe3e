//! Both ends of a wire in one process and one thread, polled alternately.

use std::collections::VecDeque;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fabric::verbs::{Config, DeviceRequest, Domain, LIBRARY, choose, list_devices};
use fabric::{
    Completion, Done, Fabric, Failure, Lane, Memory, Op, Pages, Region, Rights, Side, Window,
};

pub(crate) const SIZE: usize = 256 * 1024;
/// Longer than any case takes, on the slowest machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct End {
    pub(crate) lane: Box<dyn Lane>,
    pub(crate) domain: Domain,
    /// Memory to which the peer has all rights.
    pub(crate) region: Region,
    /// The peer's region.
    pub(crate) window: Window,
    pub(crate) done: Vec<Completion>,
}

pub(crate) struct Pair {
    pub(crate) near: End,
    pub(crate) far: End,
}

/// Opens a device. After a fault it takes a moment until its port is active again.
pub(crate) fn open(device: &str, config: &Config) -> Domain {
    let library = Path::new(LIBRARY);
    let request =
        DeviceRequest { device: Some(device.to_owned()), port: None, gid_index: None, mtu: 4096 };
    let started = Instant::now();
    loop {
        let devices = list_devices(library).expect("the lab has devices").devices;
        match choose(&devices, &request) {
            Ok(choice) => return Domain::open_with(library, &choice, config.clone()).unwrap(),
            Err(refusal) => assert!(started.elapsed() < LIMIT, "{refusal}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn connect(near: &Domain, far: &Domain) -> (Box<dyn Lane>, Box<dyn Lane>) {
    let (ours, theirs) =
        (near.prepare_lane(Side::Dial).unwrap(), far.prepare_lane(Side::Accept).unwrap());
    let (our_offer, their_offer) = (ours.offer(), theirs.offer());
    (ours.connect(&their_offer, LIMIT).unwrap(), theirs.connect(&our_offer, LIMIT).unwrap())
}

pub(crate) fn region(domain: &Domain) -> Region {
    let memory = Memory::allocate(SIZE, Pages::Plain).unwrap();
    domain.register(&memory, Rights::ALL).unwrap()
}

impl Pair {
    /// Over the lab's first wire. Half a second before each retransmission: on a busy machine an emulated
    /// device may not acknowledge for longer than the default allows in all.
    pub(crate) fn new(config: Config) -> Self {
        let timeout = config.timeout.max(17);
        Self::between("rxe0", "rxe1", &Config { timeout, ..config })
    }

    pub(crate) fn between(near: &str, far: &str, config: &Config) -> Self {
        let (near, far) = (open(near, config), open(far, config));
        let (mut near_lane, mut far_lane) = connect(&near, &far);
        let (near_region, far_region) = (region(&near), region(&far));
        let near_window = import(&mut *near_lane, &mut *far_lane, &far_region);
        let far_window = import(&mut *far_lane, &mut *near_lane, &near_region);
        let near = End {
            lane: near_lane,
            domain: near,
            region: near_region,
            window: near_window,
            done: Vec::new(),
        };
        let far = End {
            lane: far_lane,
            domain: far,
            region: far_region,
            window: far_window,
            done: Vec::new(),
        };
        Pair { near, far }
    }

    /// Polls both ends until they have so many completions.
    #[track_caller]
    pub(crate) fn run(&mut self, near: usize, far: usize) {
        let started = Instant::now();
        while self.near.done.len() < near || self.far.done.len() < far {
            self.near.poll();
            self.far.poll();
            let state = || format!("near: {:#?}\nfar: {:#?}", self.near.done, self.far.done);
            assert!(started.elapsed() < LIMIT, "timeout\n{}", state());
        }
    }
}

/// Makes `granter`'s region usable by `user`.
pub(crate) fn import(user: &mut dyn Lane, granter: &mut dyn Lane, region: &Region) -> Window {
    let granted = granter.grant(region).unwrap();
    let transferred = fabric::RemoteRegion::from_bytes(&granted.to_bytes()).unwrap();
    user.import(&transferred).unwrap()
}

impl End {
    /// Posts operations, all of which must fit.
    #[track_caller]
    pub(crate) fn post(&mut self, ops: impl IntoIterator<Item = Op>) {
        let mut ops: VecDeque<Op> = ops.into_iter().collect();
        self.lane.post(&mut ops);
        assert!(ops.is_empty(), "{} operations did not fit", ops.len());
    }

    pub(crate) fn poll(&mut self) {
        self.lane.poll(&mut self.done);
    }

    /// The outcomes since the last call, by `op_id`.
    pub(crate) fn outcomes(&mut self) -> Vec<(u64, Result<Done, Failure>)> {
        self.done.drain(..).map(|one| (one.op_id, one.outcome)).collect()
    }

    /// Sleeps on the lane's descriptor; returns whether it was woken.
    pub(crate) fn sleep(&self, limit: Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::from_borrowed_fd(self.lane.fd(), PollFlags::IN)];
        let limit = Timespec::try_from(limit).unwrap();
        poll(&mut fds, Some(&limit)).unwrap() > 0
    }
}

/// The lab's command for its wires.
pub(crate) fn wire(arguments: &str) {
    shell(&format!("wire {arguments}"));
}

pub(crate) fn shell(script: &str) {
    let status = Command::new("sh").args(["-ec", script]).status();
    assert!(status.expect("sh runs").success(), "{script}");
}
