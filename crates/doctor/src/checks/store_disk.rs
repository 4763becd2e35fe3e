//! The disk of the store on this machine.

use node::Mount;

use crate::expected::store_disk::{
    MAX_SAVE, MAX_SAVE_P99, MIN_SAVES, is_container_layer, is_in_memory, without_barriers,
};
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
    let mut findings = vec![saving(disk)];
    findings.extend(place(input, disk));
    findings.extend(damage(disk));
    findings.extend(clock(disk));
    findings
}

/// Whether writes are saved, and how quickly.
fn saving(disk: &StoreDisk) -> Finding {
    let time = |name, range: Option<(f64, f64)>| {
        range.map(|(from, to)| format!(", {name} {} to {}", milliseconds(from), milliseconds(to)))
    };
    let times = [time("p50", disk.save_p50), time("p99", disk.save_p99)];
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
    let slow = disk.save_p99.filter(|(from, _)| disk.saves >= MIN_SAVES && *from > MAX_SAVE_P99);
    let finding = if disk.failing {
        Finding::problem(path, "the store cannot write to its disk, and refuses writes")
            .fix("See the store's log for the reason: free space, or replace the disk.")
    } else if disk.save_running > MAX_SAVE {
        let text = format!("the disk has not answered for {:.0} s; writes wait", disk.save_running);
        Finding::problem(path, text)
            .fix("See the kernel's log (`dmesg`) for errors of the disk, and `iostat -x 1` for its load.")
    } else if let Some((from, _)) = slow {
        let text = format!(
            "the disk is slow: one save of a hundred takes more than {}",
            milliseconds(from)
        );
        Finding::warning(path, text).fix(
            "Use a disk with quick syncs (NVMe with power-loss protection), or a volume with more operations per second; \
             `iostat -x 1` shows what else uses it.",
        )
    } else {
        Finding::ok(path, "the store's writes are saved")
    };
    finding.evidence(evidence)
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1e3)
}

/// Whether the file system keeps what was synced.
fn place(input: &CheckInput<'_>, disk: &StoreDisk) -> Option<Finding> {
    let path = &disk.path[..];
    if !input.tree.exists(path) {
        let text = "the data directory is not visible here: the store may be in a container";
        return Some(Finding::unknown(path, text).fix("Run this in the store's container."));
    }
    let mounts = Mount::read_all(input.tree);
    let mount = Mount::containing(&mounts, path)?;
    let shown = format!("{} on {}, {}", mount.kind, mount.source, mount.options.join(","));
    let mounted = Evidence::new(format!("mount of {}", mount.point), shown);
    if is_in_memory(mount) {
        let text = format!(
            "the data directory is in memory ({}): a restart of the machine loses everything",
            mount.kind
        );
        let fix = "Start the store with a --data-dir on a disk.";
        return Some(Finding::problem(path, text).evidence(mounted).fix(fix));
    }
    if is_container_layer(mount) {
        let text = format!(
            "the data directory is in the writable layer of a container ({}): removing the container loses everything",
            mount.kind
        );
        let fix = "Start the store with a --data-dir on a volume.";
        return Some(Finding::warning(path, text).evidence(mounted).fix(fix));
    }
    let option = without_barriers(mount)?;
    let cache = write_cache(input, mount);
    let finding = match &cache {
        // Then the device has nothing to flush.
        Some(cache) if cache.value == "write through" => {
            Finding::note(path, format!("mounted with `{option}`; the disk has no volatile cache"))
        }
        _ => {
            let text = format!(
                "`{option}`: a sync returns before the disk has the data; power loss loses acknowledged writes"
            );
            Finding::problem(path, text)
                .fix(format!("Mount {} without `{option}` (ext4: mount -o remount,barrier=1), also in /etc/fstab.", mount.point))
        }
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
        let text = format!("{} reads found a damaged value since the store's start", disk.damaged);
        Finding::problem(&disk.path[..], text)
            .fix(format!(
                "wirelane kv fsck {} lists damaged values: put them again, or restore a backup.",
                disk.path
            ))
            .fix("Replace the disk if the kernel's log has errors of it.")
    })
}

/// What changes when values expire that are loaded from the disk.
fn clock(disk: &StoreDisk) -> Option<Finding> {
    let (set, slept) = (disk.clock_set, disk.suspended);
    let evidence =
        format!("clock set by {set:.0} s in all, asleep for {slept:.0} s, since the store's start");
    let evidence = Evidence::new(format!("http://{}/metrics", disk.address), evidence);
    let finding = if set > 0.0 {
        Finding::warning(
            &disk.path[..],
            "the clock was set: values with a time to live that are loaded from the disk expire at the wrong time",
        )
        .fix("Let the clock be synchronised before the store starts (chrony-wait, systemd-time-wait-sync).")
    } else if slept > 0.0 {
        let text = "the machine slept: values expired meanwhile, and clients were cut off";
        Finding::note(&disk.path[..], text)
    } else {
        return None;
    };
    Some(finding.evidence(evidence))
}
