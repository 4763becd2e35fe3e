//! Samples of state, rate and counters of RDMA devices.
//!
//! Nothing is cached, and only selected files are read. A device that is removed during a sample has fewer files,
//! and does not affect others.

use crate::counters::{self, CounterSource};
use crate::name::is_name;
use crate::tree::{FreshFolder, sort_names};
use crate::{Counter, PortStatus, Tree};

/// A sample of a device, without the counters that its driver does not have.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSample {
    /// `mlx5_0`.
    pub name: String,
    /// From the first.
    pub ports: Vec<PortStatus>,
    /// Counters of the device as a whole.
    pub counters: Vec<Counter>,
}

/// Selects the devices and counters to read.
pub trait Select {
    /// Whether a device is read.
    fn device(&mut self, name: &str) -> bool;

    /// Whether a counter of the device is read.
    fn counter(&mut self, device: &str, source: CounterSource, name: &str) -> bool;
}

/// Reads all selected devices, in the order of their names.
pub fn sample(tree: &Tree, select: &mut impl Select) -> Vec<DeviceSample> {
    let Some(class) = FreshFolder::open(tree, CLASS.to_owned()) else { return Vec::new() };
    let mut names = class.names(MAX_DEVICES);
    sort_names(&mut names);
    let mut files_left = MAX_FILES;
    let valid = names.into_iter().filter(|name| is_name(name));
    let mut devices = Vec::new();
    for name in valid {
        if select.device(&name) && files_left > 0 {
            let mut sampler = Sampler { tree, select, device: &name, files_left: &mut files_left };
            let ports = sampler.ports();
            let counters = sampler.counters();
            devices.push(DeviceSample { name, ports, counters });
        }
    }
    devices
}

struct Sampler<'l, S> {
    tree: &'l Tree,
    select: &'l mut S,
    device: &'l str,
    /// Remaining files: with links, few files can have endless paths.
    files_left: &'l mut usize,
}

impl<S: Select> Sampler<'_, S> {
    fn ports(&mut self) -> Vec<PortStatus> {
        let path = format!("{CLASS}/{}/ports", self.device);
        let Some(folder) = FreshFolder::open(self.tree, path.clone()) else { return Vec::new() };
        let names = folder.names(MAX_PORTS);
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        numbers.into_iter().filter_map(|number| self.port(&path, number)).collect()
    }

    fn port(&mut self, ports: &str, number: u32) -> Option<PortStatus> {
        let tree = self.tree;
        let wanted = &mut |source, name: &str| self.wants(source, name);
        let mut port = PortStatus::read::<FreshFolder<'_>>(tree, ports, number, wanted)?;
        port.counters.retain(|counter| !counter.is_missing());
        Some(port)
    }

    /// Counters of the device as a whole.
    fn counters(&mut self) -> Vec<Counter> {
        let (tree, path) = (self.tree, format!("{CLASS}/{}", self.device));
        let wanted = &mut |source, name: &str| self.wants(source, name);
        let mut counters =
            counters::read::<FreshFolder<'_>>(tree, &path, CounterSource::HwCounters, wanted);
        counters.retain(|counter| !counter.is_missing());
        counters
    }

    fn wants(&mut self, source: CounterSource, name: &str) -> bool {
        let wanted = *self.files_left > 0 && self.select.counter(self.device, source, name);
        *self.files_left -= usize::from(wanted);
        wanted
    }
}

const CLASS: &str = "/sys/class/infiniband";
/// No machine has more, including virtual functions.
const MAX_DEVICES: usize = 4096;
/// No device has more; a switch has up to 254.
const MAX_PORTS: usize = 256;
/// A thousand virtual functions with a hundred counters each.
const MAX_FILES: usize = 200_000;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::{PortState, Reading};

    struct All;

    impl Select for All {
        fn device(&mut self, name: &str) -> bool {
            name != "unwanted"
        }

        fn counter(&mut self, _device: &str, _source: CounterSource, name: &str) -> bool {
            name != "unwanted"
        }
    }

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join("sys/class/infiniband").join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    fn number(devices: &[DeviceSample], counter: &str) -> Option<Reading<u64>> {
        let mut counters = devices[0].ports[0].counters.iter();
        counters.find(|known| known.name == counter).map(|known| known.value.clone())
    }

    #[test]
    fn counters_are_read_again_except_refused_ones() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path();
        put(root, "mlx5_0/ports/1/state", "4: ACTIVE\n");
        put(root, "mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
        put(root, "mlx5_0/ports/1/counters/port_rcv_data", "7\n");
        put(root, "mlx5_0/ports/1/counters/symbol_error", "N/A (no PMA)\n");
        put(root, "mlx5_0/ports/1/counters/unwanted", "1\n");
        put(root, "mlx5_0/ports/1/hw_counters/out_of_buffer", "many\n");
        put(root, "unwanted/ports/1/state", "4: ACTIVE\n");
        let refused = root.join("sys/class/infiniband/mlx5_0/ports/1/hw_counters/restricted");
        // A file that is not regular is refused like a counter that the driver does not have.
        let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &refused, fifo, mode, 0).expect("a fifo");
        let mut tree = Tree::at(root).expect("a tree");
        let first = sample(&tree, &mut All);
        assert_eq!(first.len(), 1, "{first:?}");
        assert_eq!(first[0].ports[0].state, Reading::Value(PortState::Active));
        assert_eq!(first[0].ports[0].rate.value().map(|rate| rate.mbps), Some(100_000));
        assert_eq!(number(&first, "port_rcv_data"), Some(Reading::Value(7)));
        assert_eq!(number(&first, "symbol_error"), None, "the driver does not have it");
        assert_eq!(number(&first, "unwanted"), None);
        assert_eq!(number(&first, "out_of_buffer"), Some(Reading::Invalid("many".to_owned())));
        assert_eq!(number(&first, "restricted"), Some(Reading::Refused(22)));

        fs::remove_file(&refused).expect("gone");
        fs::write(&refused, "2\n").expect("a file");
        put(root, "mlx5_0/ports/1/counters/port_rcv_data", "8\n");
        let second = sample(&tree, &mut All);
        assert_eq!(number(&second, "port_rcv_data"), Some(Reading::Value(8)));
        assert_eq!(number(&second, "restricted"), Some(Reading::Refused(22)), "never read again");
        tree.retry_refused("/sys/class/infiniband/mlx5_0");
        assert_eq!(number(&sample(&tree, &mut All), "restricted"), Some(Reading::Value(2)));
    }

    #[test]
    fn a_snapshot_can_be_sampled() {
        let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees");
        let tree = Tree::at(&trees.join("ndr8.json")).expect("a tree");
        let devices = sample(&tree, &mut All);
        assert_eq!(devices.len(), 9);
        assert!(devices.iter().all(|device| device.ports[0].counters.len() > 40));
    }
}
