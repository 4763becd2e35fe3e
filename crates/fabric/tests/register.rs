//! Memory registered with real devices. Needs the lab.
#![allow(missing_docs, reason = "a test")]

use std::collections::VecDeque;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fabric::shm::Shm;
use fabric::verbs::{DeviceRequest, Domain, LIBRARY, choose, list_devices};
use fabric::{
    Done, Error, ErrorKind, Fabric, Failure, Lane, Memory, Op, Pages, Region, Rights, Side, Window,
};

const MIB: usize = 1 << 20;
const LIMIT: Duration = Duration::from_secs(30);

fn open() -> Result<Domain, Error> {
    open_one(None)
}

fn open_one(device: Option<&str>) -> Result<Domain, Error> {
    let library = Path::new(LIBRARY);
    let devices = list_devices(library).expect("the lab has devices").devices;
    let request =
        DeviceRequest { device: device.map(str::to_owned), port: None, gid_index: None, mtu: 4096 };
    Domain::open(library, &choose(&devices, &request).expect("one is usable"))
}

/// The memory of this process that is pinned for devices, in MiB.
fn pinned() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("our own status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPin:")).expect("a line");
    let kib = line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number");
    kib / 1024
}

#[test]
fn the_same_memory_is_registered_once_and_released_with_the_last_region() {
    let domain = open().unwrap();
    let before = pinned();
    let memory = Memory::allocate(MIB, Pages::Plain).unwrap();
    let first = domain.register(&memory, Rights::ALL).unwrap();
    let again = domain.register(&memory.clone(), Rights::ALL).unwrap();
    assert!(first.shares_registration(&again));
    let readable = Rights { read: true, ..Rights::NONE };
    let narrower = domain.register(&memory, readable).unwrap();
    assert!(!first.shares_registration(&narrower), "other rights are another registration");
    assert_eq!((narrower.rights(), narrower.memory().len()), (readable, MIB));
    assert_eq!(pinned(), before + 2);
    drop((first, narrower));
    assert_eq!(pinned(), before + 1, "one clone is left");
    drop(again);
    assert_eq!(pinned(), before);
    domain.register(&memory, Rights::ALL).expect("it can be registered again");
}

#[test]
fn a_region_outlives_its_domain_and_its_memory() {
    let domain = open().unwrap();
    let memory = Memory::allocate(MIB, Pages::Plain).unwrap();
    let region = domain.register(&memory, Rights::ALL).unwrap();
    drop((domain, memory));
    region.memory().store(0, 7);
    assert_eq!(region.memory().load(0), 7);
}

/// Both ends of a lane, in one thread.
fn connect(near: &dyn Fabric, far: &dyn Fabric) -> [Box<dyn Lane>; 2] {
    let (near, far) =
        (near.prepare_lane(Side::Dial).unwrap(), far.prepare_lane(Side::Accept).unwrap());
    let offers = [near.offer(), far.offer()];
    std::thread::scope(|scope| {
        let far = scope.spawn(|| far.connect(&offers[0], LIMIT).unwrap());
        [near.connect(&offers[1], LIMIT).unwrap(), far.join().unwrap()]
    })
}

fn import([user, granter]: &mut [Box<dyn Lane>; 2], region: &Region) -> Window {
    let granted = granter.grant(region).unwrap();
    user.import(&granted).unwrap()
}

/// Runs one operation at the near end, and returns its outcome.
fn perform([near, far]: &mut [Box<dyn Lane>; 2], op: Op) -> Result<Done, Failure> {
    near.post(&mut VecDeque::from([op]));
    let (mut done, started) = (Vec::new(), Instant::now());
    while done.is_empty() {
        near.poll(&mut done);
        far.poll(&mut Vec::new());
        assert!(started.elapsed() < LIMIT, "timeout");
    }
    done.remove(0).outcome
}

/// One region at both ends of a verbs lane and of a shared-memory lane: copies between its two halves.
#[test]
fn a_shared_region_is_used_over_every_fabric_it_is_attached_to() {
    let (near, far, shm) = (open_one(Some("rxe0")), open_one(Some("rxe1")), Shm::default());
    let (near, far) = (near.unwrap(), far.unwrap());
    let before = pinned();
    let memory = Memory::allocate(MIB, Pages::Plain).unwrap();
    let region = Region::shared(&memory, Rights::ALL);
    assert_eq!(pinned(), before);
    for fabric in [&near as &dyn Fabric, &far, &shm, &near] {
        fabric.attach(&region).unwrap();
    }
    assert_eq!(pinned(), before + 2, "once with each device");
    let own = near.register(&memory, Rights::ALL).unwrap();
    assert!(own.shares_registration(&region) && region.shares_registration(&own));
    let other = Region::shared(&memory, Rights::ALL);
    assert!(!other.shares_registration(&region));
    far.attach(&other).unwrap();
    assert!(other.shares_registration(&region) && pinned() == before + 2);

    for (round, mut lanes) in
        [connect(&near, &far), connect(&far, &near), connect(&shm, &shm)].into_iter().enumerate()
    {
        let window = import(&mut lanes, &region);
        let sample = vec![round as u8 + 1; 5000];
        memory.write(0, &sample);
        let write = Op::write(1, region.slice(..5000), window.at(MIB as u64 / 2));
        assert_eq!(perform(&mut lanes, write), Ok(Done::Placed));
        assert_eq!(region.slice(MIB / 2..MIB / 2 + 5000).to_vec(), sample);
        let read = Op::read(2, region.slice(9000..14_000), window.at(MIB as u64 / 2));
        assert_eq!(perform(&mut lanes, read), Ok(Done::Placed));
        assert_eq!(region.slice(9000..14_000).to_vec(), sample);
    }
    drop((region, other));
    assert_eq!(pinned(), before + 1, "a region of the device's own is left");
}

#[test]
fn a_detached_region_is_refused_until_it_is_attached_again() {
    let (near, far) = (open_one(Some("rxe0")).unwrap(), open_one(Some("rxe1")).unwrap());
    let mut lanes = connect(&near, &far);
    let memory = Memory::allocate(MIB, Pages::Plain).unwrap();
    let region = Region::shared(&memory, Rights::ALL);
    assert_eq!(lanes[0].grant(&region).unwrap_err().kind(), ErrorKind::Misuse);
    far.attach(&region).unwrap();
    let window = import(&mut lanes, &region);
    let write = || Op::write(1, region.slice(..8), window.at(800));
    let before = pinned();
    for _ in 0..3 {
        assert_eq!(perform(&mut lanes, write()), Err(Failure::Unsupported), "not attached");
        near.attach(&region).unwrap();
        assert_eq!(perform(&mut lanes, write()), Ok(Done::Placed));
        near.detach(&region);
        assert_eq!(pinned(), before);
    }
    let foreign = far.register(&memory, Rights::ALL).unwrap();
    assert_eq!(near.attach(&foreign).unwrap_err().kind(), ErrorKind::Misuse);
    far.attach(&foreign).expect("it is registered there");
    far.detach(&foreign);
    far.detach(&region);
    // The peer's key is no longer valid.
    near.attach(&region).unwrap();
    drop(foreign);
    assert_eq!(perform(&mut lanes, write()), Err(Failure::Access));
}

#[test]
fn a_shared_region_has_a_limit_of_domains() {
    let memory = Memory::allocate(MIB, Pages::Plain).unwrap();
    let region = Region::shared(&memory, Rights::ALL);
    let domains: Vec<Domain> = (0..17).map(|_| open().unwrap()).collect();
    for domain in &domains[..16] {
        domain.attach(&region).unwrap();
    }
    let error = domains[16].attach(&region).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    domains[3].detach(&region);
    domains[16].attach(&region).expect("a domain was detached");
}

#[test]
fn a_shared_region_does_not_keep_the_device_open() {
    let region = Region::shared(&Memory::allocate(MIB, Pages::Plain).unwrap(), Rights::ALL);
    let before = (open_devices(), pinned());
    for detach in [true, false] {
        let (near, far) = (open_one(Some("rxe0")).unwrap(), open_one(Some("rxe1")).unwrap());
        near.attach(&region).unwrap();
        far.attach(&region).unwrap();
        let mut lanes = connect(&near, &far);
        if detach {
            near.detach(&region);
            far.detach(&region);
            drop((near, far));
        } else {
            // The lanes still exist, and use it.
            drop((near, far));
            let window = import(&mut lanes, &region);
            let write = Op::write(1, region.slice(..8), window.at(800));
            assert_eq!(perform(&mut lanes, write), Ok(Done::Placed));
        }
        assert!(open_devices() > before.0);
        drop(lanes);
        assert_eq!((open_devices(), pinned()), before, "detached: {detach}");
    }
}

/// The number of open device descriptors of this process.
fn open_devices() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("our own");
    let targets = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.starts_with("/dev/infiniband")).count()
}

#[test]
fn huge_pages_register() {
    let reserved = Command::new("sysctl").args(["-qw", "vm.nr_hugepages=8"]).status();
    assert!(reserved.expect("sysctl runs").success());
    let memory = Memory::allocate(5 * MIB, Pages::Huge).unwrap();
    assert_eq!(memory.page_size(), 2 * MIB);
    assert_eq!(Memory::allocate(5 * MIB, Pages::Auto).unwrap().page_size(), 2 * MIB);
    open().unwrap().register(&memory, Rights::ALL).unwrap();
    let error = Memory::allocate(100 * MIB, Pages::Huge).unwrap_err();
    assert!(error.to_string().contains("vm.nr_hugepages"), "{error}");
    assert_eq!(Memory::allocate(100 * MIB, Pages::Auto).unwrap().page_size(), 4096);
}

#[test]
fn the_error_of_a_device_without_permission_has_a_fix() {
    if std::env::var_os(CHILD).is_some() {
        let Err(error) = fabric::open("verbs") else { panic!("opened without permission") };
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.contains("cannot open /dev/infiniband/uverbs"), "{text}");
        assert!(text.contains("give this user access to it"), "{text}");
        return;
    }
    let nodes = |mode: &str| {
        let command = format!("chmod {mode} /dev/infiniband/uverbs*");
        assert!(Command::new("sh").args(["-c", &command]).status().expect("sh runs").success());
    };
    nodes("600");
    let output = unprivileged("the_error_of_a_device_without_permission_has_a_fix");
    nodes("666");
    assert!(output.is_ok(), "{output:?}");
}

/// With a low limit of locked memory.
#[test]
fn the_error_of_a_low_memlock_has_its_value_and_a_fix() {
    if std::env::var_os(CHILD).is_some() {
        let memory = Memory::allocate(MIB, Pages::Plain).unwrap();
        let error = open().unwrap().register(&memory, Rights::ALL).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full);
        let text = error.to_string();
        assert!(text.starts_with("register 1.0 MiB on rxe"), "{text}");
        assert!(text.contains("may lock 64.0 KiB (RLIMIT_MEMLOCK)"), "{text}");
        assert!(text.contains("ulimit -l unlimited"), "{text}");
        return;
    }
    let output = unprivileged("the_error_of_a_low_memlock_has_its_value_and_a_fix");
    assert!(output.is_ok(), "{output:?}");
}

const CHILD: &str = "WIRELANE_TEST_UNPRIVILEGED";

/// Runs one test of this program again, as an unprivileged user who may lock 64 KiB.
fn unprivileged(test: &str) -> Result<String, String> {
    let output = Command::new("prlimit")
        .args(["--memlock=65536:65536", "setpriv", "--reuid=65534", "--regid=65534"])
        .args(["--clear-groups", "--bounding-set=-all"])
        .arg(std::env::current_exe().expect("our own path"))
        .args(["--exact", test])
        .env(CHILD, "1")
        .output()
        .expect("prlimit runs");
    let printed = [output.stdout, output.stderr]
        .map(|printed| String::from_utf8_lossy(&printed).into_owned());
    let printed = printed.concat();
    if output.status.success() && printed.contains("1 passed") { Ok(printed) } else { Err(printed) }
}
