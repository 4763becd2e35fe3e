//! The lab, used as by a user. Each test boots a machine, so there are few, with many checks each.
#![allow(missing_docs, reason = "a test")]

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// `cargo xtask lab ARGUMENTS`, to its end.
fn lab(arguments: &[&str]) -> Output {
    start(arguments).wait_with_output().expect("the lab ends")
}

fn start(arguments: &[&str]) -> Child {
    // If everything is built already, the lab must not build the program again.
    let built = std::env::var_os("WIRELANE_TEST_BUILT").map(|_| "--built");
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("lab")
        .args(built)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the lab starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_command_runs_on_a_complete_linux_and_its_exit_code_is_returned() {
    let script = r#"
        echo to-stdout
        echo to-stderr >/dev/stderr
        set -e
        test "$(id -u)" = 0
        test "$(ulimit -l)" = unlimited
        echo lab >/etc/wirelane-lab-was-here
        echo lab >/var/wirelane-lab-was-here
        echo lab >/run/wirelane-lab-was-here
        echo lab >/dev/shm/wirelane-lab-was-here
        test -c /dev/pts/ptmx
        test -e /sys/fs/cgroup/cgroup.procs
        ip netns add other
        ip netns exec other ip link set lo up
        wire delay 0 1ms
        wire show | grep -q 'delay 1ms'
        wire repair 0
        modprobe nfsd
        test -x "$(command -v wirelane)"
        exit 7
    "#;
    let output = lab(&["--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "to-stdout\n");
    // On a busy host the machine may need a second start, which the lab reports.
    let stderr = text(&output.stderr);
    let command_lines: Vec<&str> =
        stderr.lines().filter(|line| !line.starts_with("lab: ")).collect();
    assert_eq!(command_lines, ["to-stderr"], "{stderr}");
    assert!(!Path::new("/etc/wirelane-lab-was-here").exists(), "the host's files are unchanged");
}

#[test]
fn a_hung_command_is_stopped_and_its_output_is_kept() {
    let child =
        start(&["--timeout", "20", "--rails", "0", "--", "sh", "-c", "echo before; sleep 999"]);
    let folder = format!("wirelane-lab-{}", child.id());
    let output = child.wait_with_output().expect("the lab ends");
    assert_eq!(output.status.code(), Some(124));
    assert_eq!(text(&output.stdout), "before\n");
    assert!(text(&output.stderr).contains("stopped after 20 s"));
    assert!(!std::env::temp_dir().join(&folder).exists());
    assert_eq!(machines_of(&folder), Vec::<String>::new());
}

#[test]
fn a_killed_lab_kills_its_machine() {
    let mut child = start(&["--rails", "0", "--", "sleep", "999"]);
    let folder = format!("wirelane-lab-{}", child.id());
    wait_until(|| !machines_of(&folder).is_empty());
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    wait_until(|| machines_of(&folder).is_empty());
    // The killed lab could not remove them.
    std::fs::remove_dir_all(std::env::temp_dir().join(folder)).expect("its files");
}

#[test]
fn a_power_cut_loses_what_was_not_synced_and_nothing_else() {
    let disk = Disk::new();
    let disk_path = disk.path();
    let write = "set -e
        mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda
        mount /dev/vda /mnt
        echo kept >/mnt/synced
        sync
        echo lost >/mnt/unsynced
        echo b >/proc/sysrq-trigger
        sleep 60";
    let output = lab(&["--disk", disk_path, "--rails", "0", "--", "sh", "-c", write]);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    let output_text = text(&output.stderr);
    assert!(
        output_text.contains("went down") && output_text.contains("sysrq: Resetting"),
        "{output_text}"
    );

    let read = "mount /dev/vda /mnt || { dmesg | tail >&2; exit 1; }
        cat /mnt/synced
        test ! -s /mnt/unsynced";
    let output = lab(&["--disk", disk_path, "--rails", "0", "--", "sh", "-c", read]);
    assert_eq!(text(&output.stdout), "kept\n", "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}

/// The store on a disk of a machine that loses power while clients write: all acknowledged values exist afterwards, and
/// nothing is damaged. In a long run again and again, after another number of writes each time.
#[test]
fn a_store_has_all_it_acknowledged_after_a_power_cut() {
    let is_long_run = std::env::var("WIRELANE_TEST_DISK").is_ok_and(|run| run == "long");
    let disk = Disk::new();
    let mut acknowledged = Vec::new();
    for round in 0..if is_long_run { 10 } else { 1 } {
        let enough = 16 + round * 13 % 31;
        let now = acknowledged_before_a_power_cut(&disk, round, enough);
        assert!(now.len() > 10, "too few writes for a test: {now:?}");
        acknowledged.extend(now);
        let kept = keys_after_a_power_cut(&disk);
        let lost: Vec<_> = acknowledged.iter().filter(|key| !kept.contains(*key)).collect();
        let all = acknowledged.len();
        assert!(lost.is_empty(), "round {round}: acknowledged and lost: {lost:?}, of {all}");
    }
}

/// Writes until this many writes are acknowledged, and cuts the power; returns their keys.
fn acknowledged_before_a_power_cut(disk: &Disk, round: u32, enough: u32) -> Vec<String> {
    let write = format!(
        "set -e
        [ {round} -gt 0 ] || mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda
        mount /dev/vda /mnt
        wirelane serve --memory 64MiB --transport tcp --data-dir /mnt/data 2>/dev/null &
        head -c 700000 /dev/urandom >/tmp/long
        put() {{ wirelane kv --transport tcp put \"$@\" 2>/dev/null; }}
        until put first 1; do sleep 0.2; done
        : >/tmp/acknowledged
        write() {{
            kind=$1 n=0
            shift
            while n=$((n + 1)); put $kind/{round}/$n \"$@\"; do echo $kind/{round}/$n; echo >>/tmp/acknowledged; done
        }}
        write short 7 &
        write long -f /tmp/long &
        # Together with much more load.
        wirelane kv --transport tcp bench --read-ratio 0 --duration 500 --depth 8 >/dev/null 2>&1 &
        until [ $(wc -l </tmp/acknowledged) -ge {enough} ]; do sleep 0.2; done
        echo b >/proc/sysrq-trigger
        sleep 60"
    );
    let output = lab(&["--disk", disk.path(), "--rails", "0", "--", "sh", "-c", &write]);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    // The last line may be incomplete.
    let output_text = text(&output.stdout);
    let complete = output_text.rsplit_once('\n').unwrap_or_default().0;
    complete.lines().map(str::to_owned).collect()
}

/// The keys that a store has on the disk when it is started again; none of its values is damaged.
fn keys_after_a_power_cut(disk: &Disk) -> HashSet<String> {
    let read = "mount /dev/vda /mnt || { dmesg | tail >&2; exit 1; }
        wirelane serve --memory 64MiB --transport tcp --data-dir /mnt/data 2>/tmp/log &
        until wirelane kv --transport tcp exists first 2>/dev/null; do sleep 0.2; done
        wirelane kv --transport tcp ls
        wirelane kv fsck /mnt/data >&2 || exit 1
        kill $!
        wait $! || true
        umount /mnt";
    let output = lab(&["--disk", disk.path(), "--rails", "0", "--", "sh", "-c", read]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

/// The file of a disk, removed on drop.
struct Disk(PathBuf);

impl Disk {
    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }

    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("wirelane-lab-disk-{}-{number}", std::process::id());
        Disk(std::env::temp_dir().join(name))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The command lines of the QEMU processes that use a run's folder.
fn machines_of(folder: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc");
    processes
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| text(&line))
        .filter(|line| line.contains("qemu-system") && line.contains(folder))
        .collect()
}

fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..600 {
        if condition() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("the condition was not met within a minute");
}
