//! XIDs: the errors that NVIDIA's driver reports, counted by GPU and number since the watch started.
//!
//! NVML reports them as events: a thread waits for them, with a timeout for each wait. Where that is not allowed or
//! not supported (some virtual GPUs), the kernel log is read with each sample.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::event::EventSet;

use crate::queries::kernel_log::{self, KernelLog};
use crate::queries::{LogKind, NvmlGpu, XidSource, nvml};

/// The number of each XID, by GPU.
type Counts<K> = BTreeMap<K, BTreeMap<u64, u64>>;

#[derive(Debug)]
pub(super) enum Xids {
    /// Counted by a thread, which ends when this is dropped.
    Events(Arc<SharedCounts>),
    Log(LogCounts),
}

#[derive(Debug, Default)]
pub(super) struct SharedCounts {
    /// By NVML's index of the GPU.
    counts: Mutex<Counts<u32>>,
    stopped: AtomicBool,
}

impl Xids {
    pub(super) fn watch(library: &Arc<Nvml>) -> Xids {
        let shared = Arc::new(SharedCounts::default());
        let (ready, is_ready) = mpsc::channel();
        let (library, counted) = (library.clone(), shared.clone());
        let wait = move || match register(&library) {
            Some((set, gpus)) => {
                let _ = ready.send(());
                count(&set, &gpus, &counted);
            }
            // Dropping the sender reports the failure.
            None => drop(ready),
        };
        let thread = std::thread::Builder::new().name("gpu xids".to_owned()).spawn(wait);
        match thread.is_ok() && is_ready.recv().is_ok() {
            true => Xids::Events(shared),
            false => Xids::Log(LogCounts::start(kernel_log::query().unwrap_or_default())),
        }
    }

    /// Adds the counts to the GPUs, and returns their source.
    pub(super) fn add_counts(&mut self, gpus: &mut [NvmlGpu]) -> Option<XidSource> {
        match self {
            Xids::Events(shared) => {
                let counts = shared.counts();
                for gpu in gpus {
                    gpu.reading.xids = counts.get(&gpu.index).cloned().unwrap_or_default();
                }
                Some(XidSource::Events)
            }
            Xids::Log(log) => log.add_counts(kernel_log::query()?, gpus),
        }
    }
}

impl Drop for Xids {
    fn drop(&mut self) {
        if let Xids::Events(shared) = self {
            shared.stopped.store(true, Ordering::Relaxed);
        }
    }
}

impl SharedCounts {
    fn counts(&self) -> MutexGuard<'_, Counts<u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registers for events of all GPUs; also returns the index of each GPU by its identity in events.
fn register(library: &Nvml) -> Option<(EventSet<'_>, BTreeMap<usize, u32>)> {
    let mut set = library.create_event_set().ok()?;
    let mut gpus = BTreeMap::new();
    for index in 0..library.device_count().ok()?.min(nvml::MAX_GPUS) {
        let Ok(device) = library.device_by_index(index) else { continue };
        set = device.register_events(EventTypes::CRITICAL_XID_ERROR, set).ok()?;
        gpus.insert(nvml::identity(&device), index);
    }
    Some((set, gpus))
}

fn count(set: &EventSet<'_>, gpus: &BTreeMap<usize, u32>, shared: &SharedCounts) {
    while !shared.stopped.load(Ordering::Relaxed) {
        match set.wait(WAIT_TIMEOUT.as_millis() as u32) {
            Ok(event) => {
                let xid = match event.event_data {
                    Some(XidError::Value(number)) => number,
                    Some(XidError::Unknown) => UNKNOWN,
                    None => continue,
                };
                if let Some(gpu) = gpus.get(&nvml::identity(&event.device)) {
                    *shared.counts().entry(*gpu).or_default().entry(xid).or_default() += 1;
                }
            }
            Err(NvmlError::Timeout) => {}
            // A GPU that fell off the bus is reported repeatedly, without a pause.
            Err(_) => std::thread::sleep(WAIT_TIMEOUT),
        }
    }
}

/// XIDs counted from the kernel log.
#[derive(Debug, Default)]
pub(super) struct LogCounts {
    /// By PCI address: `0000:1b:00`.
    counts: Counts<String>,
    /// The time of the newest line that was counted, or existed before the watch.
    newest_us: Option<u64>,
}

impl LogCounts {
    fn start(log: KernelLog) -> LogCounts {
        let mut started = LogCounts::default();
        started.add(log);
        started.counts.clear();
        started
    }

    fn add_counts(&mut self, log: KernelLog, gpus: &mut [NvmlGpu]) -> Option<XidSource> {
        if log.refused.is_some() {
            return None;
        }
        self.add(log);
        for gpu in gpus {
            let address = gpu.pci.as_deref().and_then(|pci| pci.strip_suffix(".0"));
            let counts = address.and_then(|address| self.counts.get(address));
            gpu.reading.xids = counts.cloned().unwrap_or_default();
        }
        Some(XidSource::KernelLog)
    }

    fn add(&mut self, log: KernelLog) {
        let is_new = |at_us| self.newest_us.is_none_or(|newest| at_us > newest);
        let new = log.lines.into_iter().filter(|line| line.kind == LogKind::Xid);
        let new: Vec<_> = new.filter(|line| is_new(line.at_us)).collect();
        self.newest_us = new.last().map(|line| line.at_us).or(self.newest_us);
        for (address, xid) in new.iter().filter_map(|line| parse(&line.text)) {
            *self.counts.entry(address).or_default().entry(xid).or_default() += 1;
        }
    }
}

/// `NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.`
pub(crate) fn parse(line: &str) -> Option<(String, u64)> {
    let (address, rest) = line.split_once("Xid (")?.1.split_once("):")?;
    let address = address.strip_prefix("PCI:").unwrap_or(address).to_ascii_lowercase();
    let digits = rest.trim_start();
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    Some((address, digits[..end].parse().ok()?))
}

/// The timeout of a wait: the thread ends at most this long after its watch.
const WAIT_TIMEOUT: Duration = Duration::from_secs(1);
/// NVML's number for an unknown XID.
const UNKNOWN: u64 = 999;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::LogLine;

    fn log(lines: &[(u64, &str)]) -> KernelLog {
        let line = |(at_us, text): &(u64, &str)| LogLine {
            at_us: *at_us,
            kind: LogKind::Xid,
            text: (*text).to_owned(),
        };
        KernelLog { refused: None, lines: lines.iter().map(line).collect() }
    }

    #[test]
    fn only_new_lines_of_the_kernel_log_are_counted() {
        let old = (10, "NVRM: Xid (PCI:0000:1b:00): 31, pid=7, Ch 00000008");
        let new = (20, "NVRM: Xid (PCI:0000:1B:00): 79, pid=7, GPU has fallen off the bus.");
        let other = (30, "NVRM: Xid (PCI:0000:2c:00): 48, an uncorrectable error");
        let mut xids = LogCounts::start(log(&[old]));
        let gpu = |pci: &str| NvmlGpu { pci: Some(pci.to_owned()), ..NvmlGpu::default() };
        let mut gpus = [gpu("0000:1b:00.0"), gpu("0000:2c:00.0"), gpu("0000:3d:00.0")];
        assert_eq!(xids.add_counts(log(&[old]), &mut gpus), Some(XidSource::KernelLog));
        assert!(gpus.iter().all(|gpu| gpu.reading.xids.is_empty()), "before the watch");
        for _ in 0..2 {
            xids.add_counts(log(&[old, new, other]), &mut gpus);
        }
        let counts = gpus.map(|gpu| gpu.reading.xids);
        assert_eq!(counts, [[(79, 1)].into(), [(48, 1)].into(), [].into()]);
    }

    #[test]
    fn an_unreadable_log_counts_nothing() {
        let refused = KernelLog { refused: Some(1), lines: vec![] };
        let mut gpus = [NvmlGpu::default()];
        assert_eq!(LogCounts::start(refused.clone()).add_counts(refused, &mut gpus), None);
    }

    #[test]
    fn lines_without_a_number_are_ignored() {
        for line in ["NVRM: GPU at PCI:0000:1b:00 has fallen off the bus", "Xid (", "Xid (a): b"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
