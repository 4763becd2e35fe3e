//! A tree like `/sys` of a machine with eight mlx5 ports and all their counters.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use crate::Failure;

pub(super) const PORTS: usize = 8;

pub(super) struct Ports {
    root: PathBuf,
    /// The value of the changing counter.
    stamp: Cell<u64>,
}

impl Ports {
    /// Creates the tree, replacing an old one.
    pub(super) fn create(root: &Path) -> Result<Ports, Failure> {
        let _ = std::fs::remove_dir_all(root);
        (0..PORTS).try_for_each(|port| device(root, port))?;
        Ok(Ports { root: root.to_owned(), stamp: Cell::new(1_000_000_000) })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Changes a counter, scrapes, and checks that the new value is in the answer. Returns the number of samples.
    pub(super) fn scrape_fresh(
        &self,
        scrape: impl Fn() -> Result<String, Failure>,
    ) -> Result<usize, Failure> {
        self.stamp.set(self.stamp.get() + 1);
        let stamp = self.stamp.get();
        let path = folder(&self.root, PORTS - 1).join("ports/1/counters/port_rcv_packets");
        write(&path, &stamp.to_string())?;
        let answer = scrape()?;
        let digits =
            answer.lines().filter_map(|line| line.rsplit_once(' ')?.1.trim().parse::<f64>().ok());
        if !{ digits }.any(|value| value == stamp as f64) {
            return Err(format!(
                "the counter reads {stamp}, which is not in the answer:\n{answer}"
            ));
        }
        let samples = answer.lines().filter(|line| line.contains("device=\""));
        Ok(samples.count())
    }
}

fn folder(root: &Path, port: usize) -> PathBuf {
    root.join(format!("sys/devices/pci0000:00/0000:{port:02x}:00.0/infiniband/mlx5_{port}"))
}

fn device(root: &Path, port: usize) -> Result<(), Failure> {
    let folder = folder(root, port);
    let facts = [
        ("fw_ver", "28.41.1000"),
        ("hca_type", "MT4129"),
        ("board_id", "MT_0000000838"),
        ("node_type", "1: CA"),
        ("ports/1/state", "4: ACTIVE"),
        ("ports/1/phys_state", "5: LinkUp"),
        ("ports/1/rate", "400 Gb/sec (4X NDR)"),
        ("ports/1/link_layer", "InfiniBand"),
    ];
    for (file, text) in facts {
        write(&folder.join(file), text)?;
    }
    for (at, name) in COUNTERS.split_whitespace().enumerate() {
        let value = (at * 7919 + port).to_string();
        write(&folder.join("ports/1/counters").join(name), &value)?;
    }
    for (at, name) in HW_COUNTERS.split_whitespace().enumerate() {
        let value = (at * 104_729 + port).to_string();
        write(&folder.join("ports/1/hw_counters").join(name), &value)?;
    }
    // As in /sys: a relative link.
    let class = root.join("sys/class/infiniband");
    let target = format!("../../devices/pci0000:00/0000:{port:02x}:00.0/infiniband/mlx5_{port}");
    std::fs::create_dir_all(&class)
        .and_then(|()| std::os::unix::fs::symlink(target, class.join(format!("mlx5_{port}"))))
        .map_err(|error| format!("{}: {error}", class.display()))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent)
        .and_then(|()| std::fs::write(path, format!("{text}\n")))
        .map_err(|error| format!("{}: {error}", path.display()))
}

const COUNTERS: &str = "VL15_dropped excessive_buffer_overrun_errors link_downed link_error_recovery \
    local_link_integrity_errors multicast_rcv_packets multicast_xmit_packets port_rcv_constraint_errors port_rcv_data \
    port_rcv_errors port_rcv_packets port_rcv_remote_physical_errors port_rcv_switch_relay_errors \
    port_xmit_constraint_errors port_xmit_data port_xmit_discards port_xmit_packets port_xmit_wait symbol_error \
    unicast_rcv_packets unicast_xmit_packets";
const HW_COUNTERS: &str = "duplicate_request implied_nak_seq_err lifespan local_ack_timeout_err np_cnp_sent \
    np_ecn_marked_roce_packets out_of_buffer out_of_sequence packet_seq_err req_cqe_error req_cqe_flush_error \
    req_remote_access_errors req_remote_invalid_request req_rnr_retries_exceeded req_transport_retries_exceeded \
    resp_cqe_error resp_cqe_flush_error resp_local_length_error resp_remote_access_errors rnr_nak_retry_err \
    roce_adp_retrans roce_adp_retrans_to roce_slow_restart roce_slow_restart_cnps roce_slow_restart_trans \
    rp_cnp_handled rp_cnp_ignored rx_atomic_requests rx_dct_connect rx_icrc_encapsulated rx_read_requests \
    rx_write_requests";
