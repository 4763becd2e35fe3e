//! Memory registered with real devices. Needs the lab.
#![allow(missing_docs, reason = "a test")]

use std::path::Path;
use std::process::Command;

use fabric::verbs::{Domain, LIBRARY, Wish, choose, survey};
use fabric::{Error, Kind, Memory, Pages, Rights};

const MIB: usize = 1 << 20;

fn open() -> Result<Domain, Error> {
    let library = Path::new(LIBRARY);
    let devices = survey(library).expect("the lab has devices").devices;
    let wish = Wish { device: None, port: None, gid_index: None, mtu: 4096 };
    Domain::open(library, &choose(&devices, &wish).expect("one is usable"))
}

/// How many MiB of this process the kernel has pinned for devices.
fn pinned() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("our own status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPin:")).expect("a line");
    let kib = line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number");
    kib / 1024
}

#[test]
fn the_same_memory_is_registered_once_and_given_back_with_the_last() {
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
    domain.register(&memory, Rights::ALL).expect("it can be registered anew");
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
fn a_device_that_may_not_be_opened_is_said_with_the_remedy() {
    if std::env::var_os(CHILD).is_some() {
        let Err(error) = fabric::open("verbs") else { panic!("it may not be opened") };
        assert_eq!(error.kind(), Kind::Unsupported);
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
    let output = unprivileged("a_device_that_may_not_be_opened_is_said_with_the_remedy");
    nodes("666");
    assert!(output.is_ok(), "{output:?}");
}

/// With little memory to lock.
#[test]
fn too_low_a_memlock_is_said_with_its_value_and_the_remedy() {
    if std::env::var_os(CHILD).is_some() {
        let memory = Memory::allocate(MIB, Pages::Plain).unwrap();
        let error = open().unwrap().register(&memory, Rights::ALL).unwrap_err();
        assert_eq!(error.kind(), Kind::Full);
        let text = error.to_string();
        assert!(text.starts_with("register 1.0 MiB on rxe0: "), "{text}");
        assert!(text.contains("may lock 64.0 KiB (RLIMIT_MEMLOCK)"), "{text}");
        assert!(text.contains("ulimit -l unlimited"), "{text}");
        return;
    }
    let output = unprivileged("too_low_a_memlock_is_said_with_its_value_and_the_remedy");
    assert!(output.is_ok(), "{output:?}");
}

const CHILD: &str = "WIRELANE_TEST_UNPRIVILEGED";

/// Runs one test of this program again, as a user without rights who may lock 64 KiB.
fn unprivileged(test: &str) -> Result<String, String> {
    let output = Command::new("prlimit")
        .args(["--memlock=65536:65536", "setpriv", "--reuid=65534", "--regid=65534"])
        .args(["--clear-groups", "--bounding-set=-all"])
        .arg(std::env::current_exe().expect("our own path"))
        .args(["--exact", test])
        .env(CHILD, "1")
        .output()
        .expect("prlimit runs");
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    let said = said.concat();
    if output.status.success() && said.contains("1 passed") { Ok(said) } else { Err(said) }
}
