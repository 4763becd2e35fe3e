//! The transport: links, RDMA and the listeners of `wirelane serve`.

use super::panel::PanelKind::{Lines, Number, Table};
use super::panel::{Panel, panel};
use super::{Dashboard, Section};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    file: "transport",
    title: "Wirelane: transport",
    about: "Links and their traffic, from `wirelane serve`.",
    target_metric: "wirelane_build_info",
    labels: &[],
    sections: &[
        Section { title: "Now", panels: NOW },
        Section { title: "Links", panels: LINKS },
        Section { title: "RDMA", panels: RDMA },
        Section { title: "Listeners", panels: LISTENERS },
        Section { title: "The process", panels: PROCESS },
    ],
};

const NOW: &[Panel] = &[
    panel("Servers", Number, "none", "Servers that answer.", &[
        ("count(wirelane_build_info{@})", ""),
    ]),
    panel("Links", Number, "none", "Links that are up.", &[
        ("sum(wirelane_links{@})", ""),
    ]),
    panel("RDMA links", Number, "none", "Links over verbs.", &[
        (r#"sum(wirelane_links{@, transport="verbs"})"#, ""),
    ]),
    panel("Fell back to TCP", Number, "none", "Links on TCP although a better transport was planned.", &[
        (r#"sum(wirelane_links_below_best{@, transport="tcp"})"#, ""),
    ]).with_limits(1.0, 2.0),
    panel("Failed operations", Number, "none", "Of RDMA, in the last hour.", &[
        ("sum(increase(wirelane_rdma_send_errors_total{@}[1h])) + sum(increase(wirelane_rdma_recv_errors_total{@}[1h]))", ""),
    ]).with_limits(1.0, 100.0),
    panel("Rejected callers", Number, "none", "In the last hour.", &[
        ("sum(increase(wirelane_listener_rejected_total{@}[1h]))", ""),
    ]).with_limits(1.0, 100.0),
    panel("Servers now", Table, "none", "Current status: one row for each server.", &[
        ("sum by (instance) (wirelane_links{@})", "links"),
        ("sum by (instance) (wirelane_links_below_best{@})", "below their best"),
        ("sum by (instance) (wirelane_rdma_rails_up{@})", "RDMA rails"),
        ("sum by (instance) (wirelane_store_clients{@})", "clients"),
        ("sum by (instance) (wirelane_process_resident_memory_bytes{@}) / 2^30", "memory GiB"),
    ]),
];

const LINKS: &[Panel] = &[
    panel(
        "Links by transport",
        Lines,
        "none",
        "The transport in use.",
        &[("sum by (instance, transport) (wirelane_links{@})", "{{instance}} {{transport}}")],
    ),
    panel(
        "Links below their best",
        Lines,
        "none",
        "Links whose planned transport is not up.",
        &[(
            "sum by (instance, transport) (wirelane_links_below_best{@})",
            "{{instance}} over {{transport}}",
        )],
    ),
    panel(
        "Link events",
        Lines,
        "ops",
        "Rails up, down and refused, switches, ends.",
        &[(
            "sum by (instance, event) (rate(wirelane_link_events_total{@}[$__rate_interval]))",
            "{{instance}} {{event}}",
        )],
    ),
    panel(
        "RDMA rails",
        Lines,
        "none",
        "Connected rails, by device.",
        &[("wirelane_rdma_rails_up{@}", "{{instance}} {{device}}")],
    ),
];

const RDMA: &[Panel] = &[
    panel(
        "Sent and received",
        Lines,
        "Bps",
        "Payload of all operations, over the last two scrapes.",
        &[
            (
                "irate(wirelane_rdma_transmit_payload_bytes_total{@}[$__rate_interval])",
                "{{instance}} sent",
            ),
            (
                "irate(wirelane_rdma_receive_payload_bytes_total{@}[$__rate_interval])",
                "{{instance}} received",
            ),
        ],
    ),
    panel(
        "Operations",
        Lines,
        "ops",
        "Completed operations, by kind.",
        &[
            (
                "irate(wirelane_rdma_send_operations_total{@}[$__rate_interval])",
                "{{instance}} send",
            ),
            (
                "irate(wirelane_rdma_recv_operations_total{@}[$__rate_interval])",
                "{{instance}} receive",
            ),
            (
                "irate(wirelane_rdma_write_operations_total{@}[$__rate_interval])",
                "{{instance}} write",
            ),
            (
                "irate(wirelane_rdma_read_operations_total{@}[$__rate_interval])",
                "{{instance}} read",
            ),
        ],
    ),
    panel(
        "Bytes by operation",
        Lines,
        "Bps",
        "Values are written and read; messages are sent and received.",
        &[
            ("rate(wirelane_rdma_send_bytes_total{@}[$__rate_interval])", "{{instance}} send"),
            ("rate(wirelane_rdma_recv_bytes_total{@}[$__rate_interval])", "{{instance}} receive"),
            ("rate(wirelane_rdma_write_bytes_total{@}[$__rate_interval])", "{{instance}} write"),
            ("rate(wirelane_rdma_read_bytes_total{@}[$__rate_interval])", "{{instance}} read"),
        ],
    ),
    panel(
        "Latency",
        Lines,
        "s",
        "From post to completion; one operation in 32 is timed.",
        &[
            (
                "histogram_quantile(0.5, sum by (instance, le) (rate(wirelane_rdma_send_latency_seconds_bucket{@}[$__rate_interval])))",
                "{{instance}} p50",
            ),
            (
                "histogram_quantile(0.99, sum by (instance, le) (rate(wirelane_rdma_send_latency_seconds_bucket{@}[$__rate_interval])))",
                "{{instance}} p99",
            ),
            (
                "histogram_quantile(0.999, sum by (instance, le) (rate(wirelane_rdma_send_latency_seconds_bucket{@}[$__rate_interval])))",
                "{{instance}} p99.9",
            ),
        ],
    ),
    panel(
        "Latency since the start",
        Lines,
        "ns",
        "From the server's own quantiles.",
        &[("wirelane_rdma_send_latency_ns{@}", "{{instance}} {{quantile}}")],
    ),
    panel(
        "Failed operations",
        Lines,
        "ops",
        "Failed operations are repeated on another rail.",
        &[
            ("rate(wirelane_rdma_send_errors_total{@}[$__rate_interval])", "{{instance}} sent"),
            ("rate(wirelane_rdma_recv_errors_total{@}[$__rate_interval])", "{{instance}} received"),
        ],
    ),
];

const LISTENERS: &[Panel] = &[
    panel(
        "Peers",
        Lines,
        "ops",
        "Accepted, and rejected by reason.",
        &[
            (
                "rate(wirelane_listener_accepted_total{@}[$__rate_interval])",
                "{{instance}} accepted",
            ),
            (
                "sum by (instance, reason) (rate(wirelane_listener_rejected_total{@}[$__rate_interval]))",
                "{{instance}} {{reason}}",
            ),
        ],
    ),
    panel(
        "Handshakes",
        Lines,
        "none",
        "Handshakes in flight.",
        &[("wirelane_listener_half_open{@}", "{{instance}}")],
    ),
    panel(
        "gRPC calls",
        Lines,
        "reqps",
        "By method.",
        &[(
            "sum by (instance, method) (rate(wirelane_grpc_calls_total{@}[$__rate_interval]))",
            "{{instance}} {{method}}",
        )],
    ),
    panel(
        "gRPC failures",
        Lines,
        "reqps",
        "By code.",
        &[(
            "sum by (instance, code) (rate(wirelane_grpc_failures_total{@}[$__rate_interval]))",
            "{{instance}} {{code}}",
        )],
    ),
    panel(
        "Access rejected",
        Lines,
        "ops",
        "Callers and requests, by reason.",
        &[(
            "sum by (instance, reason) (rate(wirelane_access_rejected_total{@}[$__rate_interval]))",
            "{{instance}} {{reason}}",
        )],
    ),
    panel(
        "gRPC connections",
        Lines,
        "none",
        "HTTP/2 connections.",
        &[("wirelane_grpc_connections{@}", "{{instance}}")],
    ),
];

const PROCESS: &[Panel] = &[
    panel(
        "CPU",
        Lines,
        "none",
        "CPUs in use.",
        &[("rate(wirelane_process_cpu_seconds_total{@}[$__rate_interval])", "{{instance}}")],
    ),
    panel(
        "Memory",
        Lines,
        "bytes",
        "Resident memory.",
        &[("wirelane_process_resident_memory_bytes{@}", "{{instance}}")],
    ),
    panel(
        "Descriptors",
        Lines,
        "percentunit",
        "Relative to the limit.",
        &[("wirelane_process_open_fds{@} / wirelane_process_max_fds{@}", "{{instance}}")],
    ),
    panel(
        "Threads",
        Lines,
        "none",
        "Of the server.",
        &[("wirelane_process_threads{@}", "{{instance}}")],
    ),
];
