//! A machine that changes while it is monitored.
#![allow(clippy::disallowed_methods, reason = "a test creates the files that it reads")]
#![allow(missing_docs, reason = "a test")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use doctor::monitoring::{MachineSample, RdmaSample, RdmaSampler, Settings, exposition};
use node::Tree;
use tempfile::TempDir;

/// A folder with the files of a machine with one NIC.
struct Machine {
    root: TempDir,
    started: Instant,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { root: TempDir::new().expect("a folder"), started: Instant::now() };
        machine.plug_in("mlx5_0", "4096");
        machine
    }

    fn plug_in(&self, device: &str, words: &str) {
        self.put(device, "fw_ver", "28.41.1000");
        self.put(device, "ports/1/state", "4: ACTIVE");
        self.put(device, "ports/1/phys_state", "5: LinkUp");
        self.put(device, "ports/1/rate", "400 Gb/sec (4X NDR)");
        self.put(device, "ports/1/link_layer", "InfiniBand");
        self.put(device, "ports/1/counters/port_rcv_data", words);
        self.put(device, "ports/1/counters/symbol_error", "3");
        self.put(device, "ports/1/hw_counters/out_of_buffer", "9");
        self.put(device, "ports/1/hw_counters/unheard of", "1");
    }

    fn path(&self, device: &str, file: &str) -> PathBuf {
        self.root.path().join("sys/class/infiniband").join(device).join(file)
    }

    fn put(&self, device: &str, file: &str, text: &str) {
        let path = self.path(device, file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, format!("{text}\n")).expect("a file");
    }

    fn unplug(&self, device: &str) {
        std::fs::remove_dir_all(self.path(device, "")).expect("it is gone");
    }

    fn watch(&self, settings: Settings) -> RdmaSampler {
        RdmaSampler::new(Tree::at(self.root.path()).expect("a tree"), settings)
    }

    /// A sample, this many seconds after the start.
    fn sample(&self, watch: &mut RdmaSampler, seconds: u64) -> RdmaSample {
        watch.sample(self.started + Duration::from_secs(seconds))
    }
}

fn text(sample: RdmaSample) -> String {
    let machine_sample =
        MachineSample { devices: sample.devices, gone: sample.gone, ..MachineSample::default() };
    exposition::expose(&machine_sample).to_string()
}

#[track_caller]
fn has(text: &str, line: &str) {
    assert!(text.lines().any(|known| known == line), "no `{line}` in:\n{text}");
}

#[test]
fn a_removed_device_is_reported_and_others_are_not_affected() {
    let machine = Machine::new();
    machine.plug_in("mlx5_1", "1");
    let mut watch = machine.watch(Settings::default());
    machine.sample(&mut watch, 0);
    machine.unplug("mlx5_0");
    let gone = text(machine.sample(&mut watch, 5));
    has(&gone, "rdma_device_present{device=\"mlx5_0\"} 0");
    has(&gone, "rdma_device_present{device=\"mlx5_1\"} 1");
    has(&gone, "rdma_port_receive_bytes_total{device=\"mlx5_1\",port=\"1\"} 4");
    assert!(!gone.contains("rdma_port_state{device=\"mlx5_0\""), "{gone}");
    machine.plug_in("mlx5_0", "2");
    let back = text(machine.sample(&mut watch, 10));
    has(&back, "rdma_device_present{device=\"mlx5_0\"} 1");
    has(&back, "rdma_port_receive_bytes_total{device=\"mlx5_0\",port=\"1\"} 8");
    has(&back, "rdma_counters_reset_total{device=\"mlx5_0\",port=\"1\"} 0");
}

#[test]
fn wrapped_saturated_and_refused_counters_are_reported() {
    let machine = Machine::new();
    let mut watch = machine.watch(Settings::default());
    let first = text(machine.sample(&mut watch, 0));
    has(&first, "rdma_out_of_buffer_drops_total{device=\"mlx5_0\",port=\"1\"} 9");
    has(&first, "rdma_counters_reset_total{device=\"mlx5_0\",port=\"1\"} 0");
    machine.put("mlx5_0", "ports/1/hw_counters/out_of_buffer", "2");
    machine.put("mlx5_0", "ports/1/counters/symbol_error", "65535");
    // A file that is not regular is refused like a counter that the driver does not have.
    let refused = machine.path("mlx5_0", "ports/1/counters/port_rcv_data");
    std::fs::remove_file(&refused).expect("gone");
    let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &refused, fifo, mode, 0).expect("a fifo");
    let second = text(machine.sample(&mut watch, 5));
    has(&second, "rdma_out_of_buffer_drops_total{device=\"mlx5_0\",port=\"1\"} 2");
    has(&second, "rdma_counters_reset_total{device=\"mlx5_0\",port=\"1\"} 1");
    let of = "device=\"mlx5_0\",port=\"1\",counter";
    has(&second, &format!("rdma_counters_saturated{{{of}=\"symbol_error\"}} 1"));
    has(
        &second,
        &format!("rdma_counters_unreadable{{{of}=\"port_rcv_data\",reason=\"EINVAL\"}} 1"),
    );
    assert!(!second.contains("port_receive_bytes"), "missing is missing:\n{second}");
    let third = text(machine.sample(&mut watch, 10));
    has(&third, "rdma_counters_reset_total{device=\"mlx5_0\",port=\"1\"} 1");
}

#[test]
fn facts_are_read_again_when_a_link_changes_and_every_minute() {
    let machine = Machine::new();
    let mut watch = machine.watch(Settings::default());
    let firmware = |sample: RdmaSample| sample.devices[0].firmware.clone();
    assert_eq!(firmware(machine.sample(&mut watch, 0)).as_deref(), Some("28.41.1000"));
    machine.put("mlx5_0", "fw_ver", "28.42.1000");
    assert_eq!(firmware(machine.sample(&mut watch, 5)).as_deref(), Some("28.41.1000"));
    machine.put("mlx5_0", "ports/1/rate", "200 Gb/sec (4X HDR)");
    let changed = machine.sample(&mut watch, 10);
    assert_eq!(changed.devices[0].ports[0].rate_mbps, Some(200_000));
    assert_eq!(firmware(changed).as_deref(), Some("28.42.1000"));
    machine.put("mlx5_0", "fw_ver", "28.43.1000");
    assert_eq!(firmware(machine.sample(&mut watch, 71)).as_deref(), Some("28.43.1000"));
}

#[test]
fn only_selected_counters_are_read_and_excess_ones_are_counted() {
    let machine = Machine::new();
    machine.plug_in("rxe0", "1");
    for number in 0..9 {
        machine.put("mlx5_0", &format!("hw_counters/Pio Reserved {number}"), "1");
    }
    let mut settings = Settings { max_unlisted: 3, ..Settings::default() };
    settings.devices.include = vec!["mlx5_*".parse().expect("a pattern")];
    settings.counters.exclude = vec!["rdma_port_*_bytes_total".parse().expect("a pattern")];
    let text = text(machine.sample(&mut machine.watch(settings), 0));
    assert!(!text.contains("rxe0") && !text.contains("bytes_total"), "{text}");
    has(&text, "rdma_symbol_errors_total{device=\"mlx5_0\",port=\"1\"} 3");
    has(&text, "rdma_unlisted_counters_total{device=\"mlx5_0\",counter=\"Pio Reserved 1\"} 1");
    assert!(!text.contains("Pio Reserved 2"), "the port has one already:\n{text}");
    has(&text, "wirelane_exporter_counters_left_out{device=\"mlx5_0\"} 7");
}

fn tree(name: &str) -> Tree {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/tests/trees");
    Tree::at(&trees.join(format!("{name}.json"))).expect("a tree")
}

fn first_sample(name: &str) -> RdmaSample {
    RdmaSampler::new(tree(name), Settings::default()).sample(Instant::now())
}

#[test]
fn a_slow_link_has_an_expected_rate_and_a_faster_nic_has_none() {
    let expected = |name: &str| {
        let sample = first_sample(name);
        let ports = sample.devices.iter().flat_map(|device| &device.ports);
        ports.filter_map(|port| Some((port.rate_mbps?, port.expected_mbps?))).collect::<Vec<_>>()
    };
    assert!(expected("cx3-10g").iter().any(|(now, then)| now < then), "a bad cable");
    assert!(expected("cx3-40g").iter().all(|(now, then)| now >= then), "a good one");
    assert_eq!(expected("rxe"), [], "software has the rate of its net device");
}

#[test]
fn a_virtual_function_has_its_physical_function() {
    let sample = first_sample("vf-zero-guid");
    let function =
        sample.devices.iter().find(|device| device.function.as_deref() == Some("virtual"));
    let nic = function.and_then(|device| device.physical_function.as_deref());
    assert!(nic.is_some(), "{:?}", sample.devices);
}
