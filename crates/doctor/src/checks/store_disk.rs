//! The disk of the store on this machine.

use node::Mount;

use crate::expected::store_disk::{MAX_SAVE_P99, MAX_WAIT, loses_data, without_barriers};
use crate::store_disk::StoreDisk;
use crate::{Check, CheckInput, Evidence, Finding};

pub(super) const CHECK: Check = Check {
    name: "store-disk",
    title: "the store's disk is quick, and keeps what it acknowledges",
    why: "A store with --data-dir acknowledges a write when the disk has synced it. A disk that says so too early loses \
          acknowledged writes with the power; a slow one delays every write.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let Some(disk) = input.store_disk else { return Vec::new() };
    let mounts = Mount::read_all(input.tree);
    let mount = Mount::containing(&mounts, &disk.path);
    let mut findings = vec![saving(disk)];
    findings.extend(mount.and_then(|mount| file_system(input, disk, mount)));
    findings.extend(damage(disk));
    findings.extend(clock(disk));
    findings
}

/// Whether writes are saved, and how quickly.
fn saving(disk: &StoreDisk) -> Finding {
    let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
    let times =
        |name, time: Option<f64>| time.map(|time| format!(", {name} {}", milliseconds(time)));
    let times = [times("p50", disk.save_p50), times("p99", disk.save_p99)];
    let evidence = Evidence::new(
        format!("http://{}/metrics", disk.address),
        format!(
            "{} saves{}, log {} MB, all {} MB, {} writes wait",
            disk.saves,
            times.into_iter().flatten().collect::<String>(),
            disk.log_bytes / 1_000_000,
            disk.bytes / 1_000_000,
            disk.queue
        ),
    );
    let path = &disk.path[..];
    let waits = disk.last_save_age.is_some_and(|age| age > MAX_WAIT) && disk.queue > 0;
    let finding = if disk.failing {
        Finding::problem(path, "the store cannot write to its disk, and refuses writes")
            .fix("See the store's log for the reason: free space, or replace the disk.")
    } else if waits {
        Finding::problem(path, "writes wait, and none was saved for ten seconds")
            .fix("See the kernel's log (`dmesg`) for errors of the disk, and `iostat -x 1` for its load.")
    } else if let Some(p99) = disk.save_p99.filter(|p99| *p99 > MAX_SAVE_P99) {
        let slow = format!(
            "the disk is slow: a hundredth of the saves take {} or more",
            milliseconds(p99)
        );
        Finding::warning(path, slow).fix(
            "Use a disk with quick syncs (NVMe with power-loss protection), or a volume with more operations per second; \
             `iostat -x 1` shows what else uses it.",
        )
    } else {
        Finding::ok(path, "the store's writes are saved")
    };
    finding.evidence(evidence)
}

/// Whether the file system keeps what was synced.
fn file_system(input: &CheckInput<'_>, disk: &StoreDisk, mount: &Mount) -> Option<Finding> {
    let shown = format!("{} on {}, {}", mount.kind, mount.source, mount.options.join(","));
    let mounted = Evidence::new(format!("mount of {}", mount.point), shown);
    if let Some(why) = loses_data(mount) {
        let text = format!("the data directory is on {}: {why}", mount.kind);
        let fix = "Start the store with a --data-dir on a local disk; in a container, on a volume.";
        return Some(Finding::warning(&disk.path[..], text).evidence(mounted).fix(fix));
    }
    let option = without_barriers(mount)?;
    let cache = write_cache(input, mount);
    let text = format!(
        "`{option}`: a sync returns before the disk has the data, so power loss loses acknowledged writes"
    );
    let finding = match &cache {
        // Then the device has nothing to flush.
        Some(cache) if cache.value == "write through" => Finding::note(
            &disk.path[..],
            format!("mounted with `{option}`; the disk has no volatile cache"),
        ),
        _ => Finding::problem(&disk.path[..], text).fix(format!(
            "mount -o remount,barrier=1 {} (and remove `{option}` from /etc/fstab).",
            mount.point
        )),
    };
    Some(finding.evidence(mounted).evidence_all(cache))
}

/// Whether the disk has a volatile cache. A partition has the settings of its disk.
fn write_cache(input: &CheckInput<'_>, mount: &Mount) -> Option<Evidence> {
    let name = mount.source.strip_prefix("/dev/")?;
    let digits = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let whole =
        digits.strip_suffix('p').filter(|disk| disk.ends_with(|l: char| l.is_ascii_digit()));
    let names = [name, whole.unwrap_or(digits)];
    let paths = names.map(|name| format!("/sys/class/block/{name}/queue/write_cache"));
    let known = paths.into_iter().find(|path| input.tree.text(path).value().is_some());
    known.map(|path| input.file(path))
}

fn damage(disk: &StoreDisk) -> Option<Finding> {
    (disk.damaged > 0).then(|| {
        Finding::problem(
            &disk.path[..],
            format!("{} values were found damaged since the store's start", disk.damaged),
        )
        .fix(format!(
            "wirelane kv fsck {} lists them: put them again, or restore a backup.",
            disk.path
        ))
        .fix("Replace the disk if the kernel's log has errors of it.")
    })
}

/// What changes when values expire that are loaded from the disk.
fn clock(disk: &StoreDisk) -> Option<Finding> {
    let (step, slept) = (disk.clock_step_seconds, disk.suspended_seconds);
    if step == 0.0 && slept == 0.0 {
        return None;
    }
    let evidence =
        format!("clock set by {step:+.0} s, asleep for {slept:.0} s, since the store's start");
    let evidence = Evidence::new(format!("http://{}/metrics", disk.address), evidence);
    let finding = match step == 0.0 {
        true => Finding::note(&disk.path[..], "the machine slept: values expired meanwhile, and clients were cut off"),
        false => Finding::warning(
            &disk.path[..],
            "the clock was set: values with a time to live that are loaded from the disk expire at the wrong time",
        )
        .fix("Let the clock be synchronised before the store starts (chrony-wait, systemd-time-wait-sync)."),
    };
    Some(finding.evidence(evidence))
}
