//! A cluster of machines with GPUs: metrics of `wirelane exporter`.

use super::panel::PanelKind::{Lines, Number, States, Table};
use super::panel::{Panel, panel};
use super::{Dashboard, Section};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    file: "cluster",
    title: "Wirelane: GPU cluster",
    about: "GPUs, CPUs and the fabric of each machine, from `wirelane exporter`.",
    target_metric: "wirelane_exporter_build_info",
    labels: &[("device", "rdma_device_present"), ("gpu", "wirelane_gpu_info")],
    sections: &[
        Section { title: "Now", panels: NOW },
        Section { title: "GPUs", panels: GPUS },
        Section { title: "CPUs and memory", panels: HOST },
        Section { title: "Fabric: traffic", panels: TRAFFIC },
        Section { title: "Fabric: health", panels: HEALTH },
        Section { title: "GPUs: health and links", panels: GPU_HEALTH },
        Section { title: "The exporter", panels: EXPORTER },
    ],
};

const NOW: &[Panel] = &[
    panel("Machines", Number, "none", "Machines that answer.", &[
        ("count(wirelane_exporter_build_info{@})", ""),
    ]),
    panel("Ports active", Number, "none", "RDMA ports in the state active.", &[
        ("sum(rdma_port_state{@device} >= bool 4)", ""),
    ]),
    panel("Ports below their rate", Number, "none",
        "Active ports with a lower rate than expected from their peer, cable or other ports.", &[
        ("sum(rdma_port_rate_bytes_per_second{@device} < bool rdma_port_rate_expected_bytes_per_second{@device})", ""),
    ]).with_limits(1.0, 2.0),
    panel("GPUs", Number, "none", "GPUs reported by NVML.", &[
        ("count(wirelane_gpu_info{@gpu})", ""),
    ]),
    panel("Hottest GPU", Number, "celsius", "The highest temperature of all.", &[
        ("max(wirelane_gpu_temperature_celsius{@gpu})", ""),
    ]).with_limits(75.0, 85.0),
    panel("Alerts", Number, "none", "Firing alerts.", &[
        (r#"count(ALERTS{alertstate="firing", instance=~"$instance"}) or vector(0)"#, ""),
    ]).with_limits(1.0, 3.0),
    panel("GPUs now", Table, "none", "Current status: one row for each GPU.", &[
        ("wirelane_gpu_temperature_celsius{@gpu}", "temperature °C"),
        ("wirelane_gpu_utilization_ratio{@gpu} * 100", "busy %"),
        ("wirelane_gpu_memory_used_bytes{@gpu} / 2^30", "memory GiB"),
        ("wirelane_gpu_power_watts{@gpu}", "power W"),
    ]),
    panel("Ports now", Table, "none", "Current status: one row for each port. State 4 is active.", &[
        ("rdma_port_state{@device}", "state"),
        ("rdma_port_rate_bytes_per_second{@device} * 8 / 1e9", "rate Gb/s"),
        ("rdma_port_rate_expected_bytes_per_second{@device} * 8 / 1e9", "expected Gb/s"),
        ("irate(rdma_port_receive_bytes_total{@device}[$__rate_interval]) * 8 / 1e9", "in Gb/s"),
        ("irate(rdma_port_transmit_bytes_total{@device}[$__rate_interval]) * 8 / 1e9", "out Gb/s"),
    ]),
];

const GPUS: &[Panel] = &[
    panel(
        "GPU temperature",
        Lines,
        "celsius",
        "Of the GPU. Lines at the warning and critical thresholds.",
        &[("wirelane_gpu_temperature_celsius{@gpu}", GPU)],
    )
    .with_limits(75.0, 85.0),
    panel(
        "GPU utilisation",
        Lines,
        "percentunit",
        "Share of time in which a kernel ran.",
        &[("wirelane_gpu_utilization_ratio{@gpu}", GPU)],
    ),
    panel(
        "GPU memory",
        Lines,
        "bytes",
        "Memory in use.",
        &[("wirelane_gpu_memory_used_bytes{@gpu}", GPU)],
    ),
    panel(
        "GPU power",
        Lines,
        "watt",
        "Power draw of each GPU.",
        &[("wirelane_gpu_power_watts{@gpu}", GPU)],
    ),
    panel(
        "GPU clocks",
        Lines,
        "hertz",
        "Of the multiprocessors.",
        &[(r#"wirelane_gpu_clock_hertz{@gpu, clock="sm"}"#, GPU)],
    ),
    panel(
        "Throttled",
        States,
        "bool_yes_no",
        "Reasons for reduced clocks.",
        &[(
            "max by (instance, gpu, reason) (wirelane_gpu_throttled{@gpu})",
            "{{instance}} {{gpu}} {{reason}}",
        )],
    )
    .with_limits(1.0, 1.0),
];

const HOST: &[Panel] = &[
    panel(
        "CPU",
        Lines,
        "percentunit",
        "Share of time in which CPUs were not idle.",
        &[(
            r#"1 - sum by (instance) (rate(wirelane_host_cpu_seconds_total{@, mode=~"idle|iowait"}[$__rate_interval])) / sum by (instance) (rate(wirelane_host_cpu_seconds_total{@}[$__rate_interval]))"#,
            "{{instance}}",
        )],
    ),
    panel(
        "RAM",
        Lines,
        "bytes",
        "Used and total memory.",
        &[
            (
                r#"sum by (instance) (wirelane_host_memory_bytes{@, kind="total"}) - sum by (instance) (wirelane_host_memory_bytes{@, kind="available"})"#,
                "{{instance}} used",
            ),
            (
                r#"sum by (instance) (wirelane_host_memory_bytes{@, kind="total"})"#,
                "{{instance}} total",
            ),
        ],
    ),
];

const TRAFFIC: &[Panel] = &[
    panel(
        "RDMA throughput in",
        Lines,
        "bps",
        "Per port, over the last two scrapes, to show bursts.",
        &[("irate(rdma_port_receive_bytes_total{@device}[$__rate_interval]) * 8", PORT)],
    ),
    panel(
        "RDMA throughput out",
        Lines,
        "bps",
        "Per port, over the last two scrapes, to show bursts.",
        &[("irate(rdma_port_transmit_bytes_total{@device}[$__rate_interval]) * 8", PORT)],
    ),
    panel(
        "RDMA packets",
        Lines,
        "pps",
        "In and out, per port.",
        &[
            (
                "irate(rdma_port_receive_packets_total{@device}[$__rate_interval])",
                "{{instance}} {{device}} {{port}} in",
            ),
            (
                "irate(rdma_port_transmit_packets_total{@device}[$__rate_interval])",
                "{{instance}} {{device}} {{port}} out",
            ),
        ],
    ),
    panel(
        "Share of the link",
        Lines,
        "percentunit",
        "Relative to the port's rate.",
        &[
            (
                "irate(rdma_port_receive_bytes_total{@device}[$__rate_interval]) / rdma_port_rate_bytes_per_second{@device}",
                "{{instance}} {{device}} {{port}} in",
            ),
            (
                "irate(rdma_port_transmit_bytes_total{@device}[$__rate_interval]) / rdma_port_rate_bytes_per_second{@device}",
                "{{instance}} {{device}} {{port}} out",
            ),
        ],
    ),
    panel(
        "Congestion",
        Lines,
        "pps",
        "ECN-marked packets, and congestion notification packets (CNPs).",
        &[
            (r#"rdma:port_marked_packets:rate5m{@device}"#, "{{instance}} {{device}} marked"),
            (r#"rdma:port_cnps_sent:rate5m{@device}"#, "{{instance}} {{device}} CNPs sent"),
            (
                "rate(rdma_reaction_point_cnps_handled_total{@device}[$__rate_interval])",
                "{{instance}} {{device}} CNPs handled",
            ),
            (
                "rate(rdma_reaction_point_cnps_ignored_total{@device}[$__rate_interval])",
                "{{instance}} {{device}} CNPs ignored",
            ),
        ],
    ),
    panel(
        "Pause",
        Lines,
        "percentunit",
        "Share of time that a port or priority was paused.",
        &[
            (
                "rate(rdma_port_priority_pause_seconds_total{@device}[$__rate_interval])",
                "{{instance}} {{device}} {{direction}} priority {{priority}}",
            ),
            (
                "rate(rdma_port_global_pause_seconds_total{@device}[$__rate_interval])",
                "{{instance}} {{device}} {{direction}}",
            ),
        ],
    ),
    panel(
        "Pause frames",
        Lines,
        "pps",
        "By direction and priority.",
        &[
            (
                "rate(rdma_port_priority_pause_frames_total{@device}[$__rate_interval])",
                "{{instance}} {{device}} {{direction}} priority {{priority}}",
            ),
            (
                "rate(rdma_port_global_pause_frames_total{@device}[$__rate_interval])",
                "{{instance}} {{device}} {{direction}}",
            ),
        ],
    ),
    panel(
        "Waiting for credit",
        Lines,
        "none",
        "InfiniBand: ticks per second with data to send and no credit from the peer.",
        &[("rate(rdma_port_transmit_wait_ticks_total{@device}[$__rate_interval])", PORT)],
    ),
    panel(
        "Waiting for PCIe",
        Lines,
        "percentunit",
        "Share of the last second that the NIC waited for PCIe.",
        &[("rdma_port_pcie_stalled_ratio{@device}", "{{instance}} {{device}} {{operation}}")],
    ),
];

const HEALTH: &[Panel] = &[
    panel(
        "State of ports",
        States,
        "none",
        "1 down, 2 init, 3 armed, 4 active.",
        &[("rdma_port_state{@device}", PORT)],
    ),
    panel(
        "Rate compared with expected",
        Lines,
        "percentunit",
        "1 is the expected rate.",
        &[(
            "rdma_port_rate_bytes_per_second{@device} / rdma_port_rate_expected_bytes_per_second{@device}",
            PORT,
        )],
    ),
    panel(
        "Losses",
        Lines,
        "pps",
        "Packets lost in each direction.",
        &[
            ("rdma:port_sequence_errors_sent:rate5m{@device}", "{{instance}} {{device}} sent"),
            (
                "rdma:port_sequence_errors_received:rate5m{@device}",
                "{{instance}} {{device}} received",
            ),
        ],
    ),
    panel(
        "Retries",
        Lines,
        "ops",
        "Timeouts, and peers not ready to receive (RNR).",
        &[
            ("rdma:port_timeouts:rate5m{@device}", "{{instance}} {{device}} timeouts"),
            ("rdma:port_receiver_not_ready:rate5m{@device}", "{{instance}} {{device}} not ready"),
        ],
    ),
    panel(
        "Link errors",
        Lines,
        "none",
        "In an hour. A good link has none.",
        &[
            ("increase(rdma_symbol_errors_total{@device}[1h])", "{{instance}} {{device}} symbols"),
            (
                "increase(rdma_port_receive_errors_total{@device}[1h])",
                "{{instance}} {{device}} packets",
            ),
            (
                "increase(rdma_port_wire_crc_errors_total{@device}[1h])",
                "{{instance}} {{device}} checksums",
            ),
        ],
    ),
    panel(
        "Link down events",
        Lines,
        "none",
        "In an hour.",
        &[
            ("increase(rdma_link_downed_total{@device}[1h])", PORT),
            ("increase(rdma_port_wire_link_downs_total{@device}[1h])", PORT),
        ],
    ),
];

const GPU_HEALTH: &[Panel] = &[
    panel(
        "XIDs",
        Lines,
        "none",
        "Errors that the driver reported since the exporter started, by number.",
        &[(
            "sum by (instance, gpu, xid) (wirelane_gpu_xid_errors_total{@gpu})",
            "{{instance}} {{gpu}} XID {{xid}}",
        )],
    ),
    panel(
        "Memory errors",
        Lines,
        "none",
        "Since the driver was loaded.",
        &[(
            r#"wirelane_gpu_ecc_errors_total{@gpu, since="boot"}"#,
            "{{instance}} {{gpu}} {{kind}}",
        )],
    ),
    panel(
        "NVLink",
        Lines,
        "Bps",
        "In and out of each GPU, over all its links.",
        &[
            (
                "sum by (instance, gpu) (irate(wirelane_gpu_nvlink_receive_bytes_total{@gpu}[$__rate_interval]))",
                "{{instance}} {{gpu}} in",
            ),
            (
                "sum by (instance, gpu) (irate(wirelane_gpu_nvlink_transmit_bytes_total{@gpu}[$__rate_interval]))",
                "{{instance}} {{gpu}} out",
            ),
        ],
    ),
    panel(
        "Active NVLinks",
        Lines,
        "none",
        "Of each GPU.",
        &[("sum by (instance, gpu) (wirelane_gpu_nvlink_active{@gpu})", GPU)],
    ),
    panel(
        "NVLink errors",
        Lines,
        "none",
        "In an hour, by kind.",
        &[(
            "sum by (instance, gpu, kind) (increase(wirelane_gpu_nvlink_errors_total{@gpu}[1h]))",
            "{{instance}} {{gpu}} {{kind}}",
        )],
    ),
    panel(
        "PCIe",
        Lines,
        "Bps",
        "In and out of each GPU, over 20 ms.",
        &[
            ("wirelane_gpu_pcie_receive_bytes_per_second{@gpu}", "{{instance}} {{gpu}} in"),
            ("wirelane_gpu_pcie_transmit_bytes_per_second{@gpu}", "{{instance}} {{gpu}} out"),
        ],
    ),
];

const EXPORTER: &[Panel] = &[
    panel(
        "Collectors",
        States,
        "bool_yes_no",
        "Whether each collector succeeded.",
        &[("wirelane_exporter_collector_success{@}", "{{instance}} {{collector}}")],
    ),
    panel(
        "Collector duration",
        Lines,
        "s",
        "Collectors run independently and do not delay each other.",
        &[("wirelane_exporter_collector_duration_seconds{@}", "{{instance}} {{collector}}")],
    ),
];

const GPU: &str = "{{instance}} {{gpu}}";
const PORT: &str = "{{instance}} {{device}} {{port}}";
