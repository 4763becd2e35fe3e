//! Lines of the kernel log about the fabric.

use std::collections::VecDeque;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Relevant lines of the kernel log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelLog {
    /// Why it cannot be read (error number); then there are no lines.
    pub refused: Option<i32>,
    /// Oldest first; the newest of too many.
    pub lines: Vec<LogLine>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Microseconds since boot.
    pub at_us: u64,
    /// Its kind.
    pub kind: LogKind,
    /// The line, without control characters.
    pub text: String,
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogKind {
    /// A NIC's health: `mlx5_core … health`, firmware and command errors.
    Health,
    /// PCIe errors that the port or root reported (AER).
    PcieError,
    /// NVIDIA's driver: `NVRM: Xid`.
    Xid,
    /// A link went up or down.
    Link,
    /// The IOMMU blocked an access (`DMAR`, `AMD-Vi`, `arm-smmu` faults).
    Iommu,
}

/// Reads all records without blocking.
pub(crate) fn query() -> Option<KernelLog> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let log = match rustix::fs::openat(CWD, "/dev/kmsg", flags, Mode::empty()) {
        Ok(log) => log,
        Err(errno) => {
            return Some(KernelLog { refused: Some(errno.raw_os_error()), lines: vec![] });
        }
    };
    let mut newest = Newest::default();
    let mut record = [0; MAX_RECORD_BYTES];
    for _ in 0..MAX_RECORDS {
        match rustix::io::read(&log, &mut record) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(length) => newest.extend(parse(&record[..length])),
            // Overwritten before it was read, or interrupted: continue with the next.
            Err(Errno::PIPE | Errno::INTR | Errno::INVAL) => {}
            Err(errno) => {
                return Some(KernelLog { refused: Some(errno.raw_os_error()), lines: vec![] });
            }
        }
    }
    Some(KernelLog { refused: None, lines: newest.in_order() })
}

/// The newest lines of each kind, so that a flood of one kind does not displace others.
#[derive(Default)]
struct Newest([VecDeque<LogLine>; 5]);

impl Newest {
    fn in_order(self) -> Vec<LogLine> {
        let mut lines: Vec<LogLine> = self.0.into_iter().flatten().collect();
        lines.sort_by_key(|line| line.at_us);
        lines
    }
}

impl Extend<LogLine> for Newest {
    fn extend<T: IntoIterator<Item = LogLine>>(&mut self, lines: T) {
        for line in lines {
            let kept = &mut self.0[line.kind as usize];
            if kept.len() == MAX_LINES_PER_KIND {
                kept.pop_front();
            }
            kept.push_back(line);
        }
    }
}

/// Parses a record such as `6,339,5140900,-;mlx5_core 0000:3b:00.0: …`, if it is about the fabric.
fn parse(record: &[u8]) -> Option<LogLine> {
    let record = String::from_utf8_lossy(record);
    let (head, text) = record.lines().next()?.split_once(';')?;
    let kind = classify(text)?;
    let at_us = head.split(',').nth(2)?.parse().ok()?;
    let text = text.chars().filter(|letter| !letter.is_control()).take(MAX_LINE_CHARS).collect();
    Some(LogLine { at_us, kind, text })
}

fn classify(text: &str) -> Option<LogKind> {
    let lower = text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["nvrm: xid", "fallen off the bus"]) {
        Some(LogKind::Xid)
    } else if is_pcie_error(&lower) {
        Some(LogKind::PcieError)
    } else if has(&["dmar:", "amd-vi:", "arm-smmu"]) && has(&["fault", "event logged", "event 0x"])
    {
        Some(LogKind::Iommu)
    } else if !has(DRIVERS) {
        None
    } else if has(&["link up", "link down", "link is", "link active", "cable"]) {
        Some(LogKind::Link)
    } else if has(HEALTH) {
        Some(LogKind::Health)
    } else {
        None
    }
}

/// The kernel's messages at boot (`AER: enabled with IRQ 122`, `DPC: error containment capabilities`) are not
/// errors.
fn is_pcie_error(lower: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    has(&["pcie bus error", "pcie error"])
        || (has(&["aer:"]) && has(&["error", "fatal", "recover"]))
        || (has(&["dpc:"]) && has(&["containment event", "error detected", "recover"]))
}

/// Parses any bytes.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz(record: &[u8]) {
    parse(record);
}

/// Words of drivers about an unhealthy NIC.
const HEALTH: &[&str] = &[
    "health",
    "syndrome",
    "fatal",
    "error",
    "fail",
    "timeout",
    "assert",
    "reset",
    "insufficient power",
    "high temperature",
];

/// Names of drivers.
const DRIVERS: &[&str] = &[
    "mlx4_",
    "mlx5_",
    "bnxt_",
    "irdma",
    "i40iw",
    "ice 0000",
    "efa 0000",
    "hfi1",
    "qedr",
    "qede",
    "cxgb4",
    "hns_roce",
    "hns3",
    "mana",
    "ionic",
    "erdma",
    "rdma_rxe",
    "siw",
    "infiniband",
];

const MAX_RECORD_BYTES: usize = 8192;
const MAX_LINE_CHARS: usize = 400;
const MAX_LINES_PER_KIND: usize = 200;
/// More than the kernel's largest buffer has: a limit if it is written as fast as it is read.
const MAX_RECORDS: usize = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_classified() {
        let kind = |text: &str| classify(text);
        for (text, expected) in [
            ("NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.", LogKind::Xid),
            (
                "pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0",
                LogKind::PcieError,
            ),
            ("DMAR: [DMA Write] Request device [3b:00.0] fault addr 0xffe", LogKind::Iommu),
            (
                "mlx5_core 0000:3b:00.0: health_care:154:(pid 1): handling bad device",
                LogKind::Health,
            ),
            ("mlx5_core 0000:3b:00.0 eth0: Link down", LogKind::Link),
            (
                "mlx5_core 0000:3b:00.0: Port module event[error]: module 0, Cable error, High \
                 Temperature",
                LogKind::Link,
            ),
            (
                "mlx5_core 0000:3b:00.0: mlx5_pcie_event:302:(pid 1): Detected insufficient power \
                 on the PCIe slot (27W).",
                LogKind::Health,
            ),
            (
                "pcieport 0000:00:1c.0: DPC: containment event, status:0x1f01 source:0x0000",
                LogKind::PcieError,
            ),
            ("pcieport 0000:00:1c.0: AER: device recovery failed", LogKind::PcieError),
        ] {
            assert_eq!(kind(text), Some(expected), "{text}");
        }
        for text in [
            "usb 1-1: reset high-speed USB device",
            "DMAR: IOMMU enabled",
            "e1000 Link up",
            "pcieport 0000:00:1c.0: AER: enabled with IRQ 122",
            "pcieport 0000:00:1c.0: DPC: enabled with IRQ 122",
            "pcieport 0000:00:1c.0: DPC: error containment capabilities: Int Msg #0, RPExt+",
        ] {
            assert_eq!(kind(text), None, "{text}");
        }
    }

    #[test]
    fn time_and_text_of_a_record_are_parsed() {
        let record = b"3,12,5140900,-;mlx5_core 0000:3b:00.0: poll_health: fatal\x07 error\n SUBSYSTEM=pci\n";
        let line = parse(record).expect("a line");
        assert_eq!((line.at_us, line.kind), (5_140_900, LogKind::Health));
        assert_eq!(line.text, "mlx5_core 0000:3b:00.0: poll_health: fatal error");
    }

    #[test]
    fn a_flood_of_one_kind_does_not_displace_others() {
        let line = |at_us, kind| LogLine { at_us, kind, text: String::new() };
        let mut newest = Newest::default();
        newest.extend([line(0, LogKind::Xid)]);
        newest.extend((1..1000).map(|at| line(at, LogKind::PcieError)));
        let lines = newest.in_order();
        assert_eq!((lines.len(), lines[0].kind, lines[1].at_us), (201, LogKind::Xid, 800));
    }
}
