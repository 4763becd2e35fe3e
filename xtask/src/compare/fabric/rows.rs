//! The rows: our lanes and the programs that they are compared with.

use super::super::pairs::Better;
use super::super::tools::{fi_pingpong, iperf3, perf, perftest, ucx};
use crate::Failure;

pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) peer: &'static str,
    pub(super) unit: &'static str,
    pub(super) better: Better,
    /// The target ratio.
    pub(super) aim: f64,
    pub(super) ours: fn() -> Result<f64, Failure>,
    pub(super) theirs: fn() -> Result<f64, Failure>,
}

const US: &str = "us";
const MBS: &str = "MB/s";
const SHM: &str = "shm,self";
const TCP: &str = "tcp,self";
const OFI_TCP: &str = "tcp;ofi_rxm";

/// A row compared with fi_pingpong, by its one-way latency or its throughput.
macro_rules! with_pingpong {
    ($name:expr, $ours:expr, us of ($($theirs:expr),*)) => {
        with_pingpong!($name, US, Less, $ours, us, $($theirs),*)
    };
    ($name:expr, $ours:expr, mb_per_s of ($($theirs:expr),*)) => {
        with_pingpong!($name, MBS, More, $ours, mb_per_s, $($theirs),*)
    };
    ($name:expr, $unit:expr, $better:ident, $ours:expr, $measurement:ident, $($theirs:expr),*) => {
        Row {
            name: $name,
            peer: "fi_pingpong",
            unit: $unit,
            better: Better::$better,
            aim: 1.0,
            ours: || perf($ours),
            theirs: || Ok(fi_pingpong($($theirs),*)?.$measurement),
        }
    };
}

/// Equal operations: `ucp_put_lat` polls the data itself, so it is compared with a plain write that is polled
/// in the same way; a write with immediate data is reported by a completion, as in `ucp_am_lat`.
pub(super) const HOST_ROWS: &[Row] = &[
    Row {
        name: "shm write latency 64 B",
        peer: "UCX shm ucp_put_lat",
        unit: US,
        better: Better::Less,
        aim: 1.0,
        ours: || perf(&["shm", "write_lat", "64", "1000000"]),
        theirs: || ucx(SHM, "ucp_put_lat", 64, 1_000_000),
    },
    Row {
        name: "shm write+imm latency 64 B",
        peer: "UCX shm ucp_am_lat",
        unit: US,
        better: Better::Less,
        aim: 1.0,
        ours: || perf(&["shm", "imm_lat", "64", "500000"]),
        theirs: || ucx(SHM, "ucp_am_lat", 64, 500_000),
    },
    Row {
        name: "shm write bandwidth 1 MiB",
        peer: "UCX shm ucp_put_bw",
        unit: MBS,
        better: Better::More,
        aim: 1.2,
        ours: || perf(&["shm", "write_bw", "1048576", "20000"]),
        theirs: || ucx(SHM, "ucp_put_bw", 1 << 20, 20_000),
    },
    Row {
        name: "tcp write bandwidth 1 MiB",
        peer: "iperf3, one stream",
        unit: MBS,
        better: Better::More,
        aim: 1.3,
        ours: || perf(&["tcp", "write_bw", "1048576", "8000"]),
        theirs: || iperf3(2),
    },
    Row {
        name: "tcp write bandwidth 1 MiB",
        peer: "UCX tcp ucp_put_bw",
        unit: MBS,
        better: Better::More,
        aim: 3.0,
        ours: || perf(&["tcp", "write_bw", "1048576", "8000"]),
        theirs: || ucx(TCP, "ucp_put_bw", 1 << 20, 2000),
    },
    Row {
        name: "tcp write latency 64 B",
        peer: "UCX tcp ucp_put_lat",
        unit: US,
        better: Better::Less,
        aim: 1.0,
        ours: || perf(&["tcp", "write_lat", "64", "50000"]),
        theirs: || ucx(TCP, "ucp_put_lat", 64, 50_000),
    },
    Row {
        name: "tcp write+imm latency 64 B",
        peer: "UCX tcp ucp_am_lat",
        unit: US,
        better: Better::Less,
        aim: 1.0,
        ours: || perf(&["tcp", "imm_lat", "64", "50000"]),
        theirs: || ucx(TCP, "ucp_am_lat", 64, 50_000),
    },
    Row {
        name: "link over shm, bandwidth 1 MiB",
        peer: "the bare lane",
        unit: MBS,
        better: Better::More,
        aim: 0.95,
        ours: || perf(&["link-shm", "write_bw", "1048576", "20000"]),
        theirs: || perf(&["shm", "write_bw", "1048576", "20000"]),
    },
    Row {
        name: "link over tcp, bandwidth 1 MiB",
        peer: "the bare lane",
        unit: MBS,
        better: Better::More,
        aim: 0.95,
        ours: || perf(&["link-tcp", "write_bw", "1048576", "8000"]),
        theirs: || perf(&["tcp", "write_bw", "1048576", "8000"]),
    },
    Row {
        name: "link over tcp, write latency 64 B",
        peer: "the bare lane",
        unit: US,
        better: Better::Less,
        aim: 0.67,
        ours: || perf(&["link-tcp", "write_lat", "64", "50000"]),
        theirs: || perf(&["tcp", "write_lat", "64", "50000"]),
    },
    Row {
        name: "link over shm, added to 64 B",
        peer: "the limit",
        unit: "ns",
        better: Better::Less,
        aim: 1.0,
        ours: || {
            let link = perf(&["link-shm", "write_16", "64", "5000000"])?;
            Ok((link - perf(&["shm", "write_16", "64", "5000000"])?).max(1.0))
        },
        theirs: || Ok(100.0),
    },
    Row {
        name: "link over shm, write+imm latency 64 B",
        peer: "the bare lane",
        unit: US,
        better: Better::Less,
        aim: 0.3,
        ours: || perf(&["link-shm", "imm_lat", "64", "500000"]),
        theirs: || perf(&["shm", "imm_lat", "64", "500000"]),
    },
    // fi_pingpong has only messages: one-way latency, and throughput of a ping-pong of this size.
    with_pingpong!("libfabric tcp, send 64 B", &["ofi-tcp", "send_lat", "64", "50000"], us of (OFI_TCP, 64, 50000)),
    with_pingpong!("libfabric tcp, send 4 KiB", &["ofi-tcp", "send_lat", "4096", "50000"], us of (OFI_TCP, 4096, 50000)),
    with_pingpong!("libfabric tcp, send 64 KiB", &["ofi-tcp", "send_lat", "65536", "5000"], us of (OFI_TCP, 65536, 5000)),
    with_pingpong!("libfabric tcp, send 1 MiB", &["ofi-tcp", "send_lat", "1048576", "1000"], us of (OFI_TCP, 1048576, 1000)),
    with_pingpong!("libfabric tcp, bandwidth 64 B", &["ofi-tcp", "write_bw", "64", "50000"], mb_per_s of (OFI_TCP, 64, 10000)),
    with_pingpong!("libfabric tcp, bandwidth 4 KiB", &["ofi-tcp", "write_bw", "4096", "50000"], mb_per_s of (OFI_TCP, 4096, 10000)),
    with_pingpong!("libfabric tcp, bandwidth 64 KiB", &["ofi-tcp", "write_bw", "65536", "10000"], mb_per_s of (OFI_TCP, 65536, 10000)),
    with_pingpong!("libfabric tcp, bandwidth 1 MiB", &["ofi-tcp", "write_bw", "1048576", "2000"], mb_per_s of (OFI_TCP, 1048576, 2000)),
];

/// Soft-RoCE in an emulated machine: only the ratio is meaningful.
pub(super) const LAB_ROWS: &[Row] = &[
    Row {
        name: "verbs write bandwidth 64 KiB",
        peer: "perftest ib_write_bw",
        unit: MBS,
        better: Better::More,
        aim: 1.0,
        ours: || perf(&["verbs", "write_bw", "65536", "1000", "rxe0", "rxe1"]),
        theirs: || perftest("ib_write_bw", 65536, 1000),
    },
    Row {
        name: "verbs write latency 64 B",
        peer: "perftest ib_write_lat",
        unit: US,
        better: Better::Less,
        aim: 1.0,
        ours: || perf(&["verbs", "write_lat", "64", "3000", "rxe0", "rxe1"]),
        theirs: || perftest("ib_write_lat", 64, 3000),
    },
    Row {
        name: "link over verbs, bandwidth 64 KiB",
        peer: "the bare lane",
        unit: MBS,
        better: Better::More,
        aim: 0.95,
        ours: || perf(&["link-verbs", "write_bw", "65536", "1000", "rxe0", "rxe1"]),
        theirs: || perf(&["verbs", "write_bw", "65536", "1000", "rxe0", "rxe1"]),
    },
    // Both ends on one device, as in fi_pingpong.
    with_pingpong!("libfabric verbs, send 64 B", &["ofi-verbs", "send_lat", "64", "3000", "rxe0", "rxe0"], us of ("verbs", 64, 20000)),
    with_pingpong!("libfabric verbs, send 4 KiB", &["ofi-verbs", "send_lat", "4096", "3000", "rxe0", "rxe0"], us of ("verbs", 4096, 5000)),
    with_pingpong!("libfabric verbs, send 64 KiB", &["ofi-verbs", "send_lat", "65536", "500", "rxe0", "rxe0"], us of ("verbs", 65536, 500)),
    with_pingpong!("libfabric verbs, send 1 MiB", &["ofi-verbs", "send_lat", "1048576", "50", "rxe0", "rxe0"], us of ("verbs", 1048576, 50)),
    with_pingpong!("libfabric verbs, bandwidth 64 B", &["ofi-verbs", "write_bw", "64", "2000", "rxe0", "rxe0"], mb_per_s of ("verbs", 64, 20000)),
    with_pingpong!("libfabric verbs, bandwidth 4 KiB", &["ofi-verbs", "write_bw", "4096", "2000", "rxe0", "rxe0"], mb_per_s of ("verbs", 4096, 5000)),
    with_pingpong!("libfabric verbs, bandwidth 64 KiB", &["ofi-verbs", "write_bw", "65536", "300", "rxe0", "rxe0"], mb_per_s of ("verbs", 65536, 500)),
];
