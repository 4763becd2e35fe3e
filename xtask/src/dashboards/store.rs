//! The store of `wirelane serve`, and its disk.

use super::panel::PanelKind::{Lines, Number, States, Table};
use super::panel::{Panel, panel};
use super::{Dashboard, Section};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    file: "store",
    title: "Wirelane: store",
    about: "Keys, memory, requests and the disk of each store, from `wirelane serve`.",
    target_metric: "wirelane_pool_bytes",
    labels: &[],
    sections: &[
        Section { title: "Now", panels: NOW },
        Section { title: "Requests", panels: REQUESTS },
        Section { title: "Memory", panels: MEMORY },
        Section { title: "Clients", panels: CLIENTS },
        Section { title: "Disk (if configured)", panels: DISK },
    ],
};

const NOW: &[Panel] = &[
    panel("Keys", Number, "short", "Of all stores.", &[
        ("sum(wirelane_store_keys{@})", ""),
    ]),
    panel("Fullest", Number, "percentunit", "The store with the least free memory.", &[
        ("max(wirelane_pool_used_bytes{@} / wirelane_pool_bytes{@})", ""),
    ]).with_limits(0.8, 0.9),
    panel("Hits", Number, "percentunit", "Share of reads that found their key, over five minutes.", &[
        ("sum(rate(wirelane_store_hits_total{@}[5m])) / (sum(rate(wirelane_store_hits_total{@}[5m])) + sum(rate(wirelane_store_misses_total{@}[5m])))", ""),
    ]),
    panel("Clients", Number, "none", "Links served.", &[
        ("sum(wirelane_store_clients{@})", ""),
    ]),
    panel("Slowest sync", Number, "s", "p99 of saves over five minutes.", &[
        ("max(histogram_quantile(0.99, sum by (instance, le) (rate(wirelane_disk_save_duration_seconds_bucket{@}[5m]))))", ""),
    ]).with_limits(0.05, 0.25),
    panel("Failing disks", Number, "none", "Stores whose last save failed, or whose files were removed, moved or replaced.", &[
        ("sum(wirelane_disk_failing{@})", ""),
    ]).with_limits(1.0, 1.0),
    panel("Stores now", Table, "none", "Current status: one row for each store.", &[
        ("sum by (instance) (wirelane_store_keys{@})", "keys"),
        ("sum by (instance) (wirelane_pool_used_bytes{@}) / 2^30", "used GiB"),
        ("sum by (instance) (wirelane_pool_bytes{@}) / 2^30", "memory GiB"),
        ("sum by (instance) (rate(wirelane_store_requests_total{@}[$__rate_interval]))", "requests/s"),
        ("sum by (instance) (wirelane_store_clients{@})", "clients"),
        ("sum by (instance) (wirelane_draining{@})", "shutting down"),
    ]),
];

const REQUESTS: &[Panel] = &[
    panel(
        "Requests",
        Lines,
        "reqps",
        "On links, over the last two scrapes.",
        &[("irate(wirelane_store_requests_total{@}[$__rate_interval])", "{{instance}}")],
    ),
    panel(
        "Reads and writes",
        Lines,
        "ops",
        "By result.",
        &[
            ("rate(wirelane_store_hits_total{@}[$__rate_interval])", "{{instance}} hit"),
            ("rate(wirelane_store_misses_total{@}[$__rate_interval])", "{{instance}} miss"),
            ("rate(wirelane_store_puts_total{@}[$__rate_interval])", "{{instance}} put"),
            ("rate(wirelane_store_deletes_total{@}[$__rate_interval])", "{{instance}} delete"),
        ],
    ),
    panel(
        "Hit ratio",
        Lines,
        "percentunit",
        "Share of reads that found their key.",
        &[("wirelane:store_hit_ratio:rate5m{@}", "{{instance}}")],
    ),
    panel(
        "Bytes",
        Lines,
        "Bps",
        "Bytes of values read and written by clients.",
        &[
            ("irate(wirelane_store_read_bytes_total{@}[$__rate_interval])", "{{instance}} read"),
            (
                "irate(wirelane_store_written_bytes_total{@}[$__rate_interval])",
                "{{instance}} written",
            ),
        ],
    ),
    panel(
        "Requests per batch",
        Lines,
        "none",
        "On average.",
        &[(
            "rate(wirelane_store_requests_total{@}[$__rate_interval]) / rate(wirelane_store_batches_total{@}[$__rate_interval])",
            "{{instance}}",
        )],
    ),
    panel(
        "In-place reads",
        Lines,
        "ops",
        "Values that clients on the same host read directly from the pool.",
        &[("rate(wirelane_store_in_place_reads_total{@}[$__rate_interval])", "{{instance}}")],
    ),
];

const MEMORY: &[Panel] = &[
    panel(
        "Pool",
        Lines,
        "bytes",
        "Memory for values.",
        &[
            ("wirelane_pool_used_bytes{@}", "{{instance}} used"),
            ("wirelane_pool_bytes{@}", "{{instance}} total"),
        ],
    ),
    panel(
        "Pool usage",
        Lines,
        "percentunit",
        "A store that evicts stays nearly full.",
        &[("wirelane_pool_used_bytes{@} / wirelane_pool_bytes{@}", "{{instance}}")],
    )
    .with_limits(0.8, 0.9),
    panel(
        "Largest free block",
        Lines,
        "bytes",
        "A larger value cannot be stored without eviction.",
        &[("wirelane_pool_largest_free_bytes{@}", "{{instance}}")],
    ),
    panel(
        "Keys",
        Lines,
        "short",
        "Including expired keys that are not removed yet.",
        &[("wirelane_store_keys{@}", "{{instance}}")],
    ),
    panel(
        "Evicted and expired",
        Lines,
        "ops",
        "Values that were removed.",
        &[
            ("rate(wirelane_store_evictions_total{@}[$__rate_interval])", "{{instance}} evicted"),
            ("rate(wirelane_store_expirations_total{@}[$__rate_interval])", "{{instance}} expired"),
        ],
    ),
    panel(
        "In-flight writes",
        Lines,
        "bytes",
        "Bytes of values being written, and their limit.",
        &[
            ("wirelane_store_in_flight_bytes{@}", "{{instance}}"),
            ("wirelane_store_in_flight_max_bytes{@}", "{{instance}} limit"),
        ],
    ),
];

const CLIENTS: &[Panel] = &[
    panel(
        "Clients and workers",
        Lines,
        "none",
        "Links served, and threads that serve them.",
        &[
            ("wirelane_store_clients{@}", "{{instance}} clients"),
            ("wirelane_store_workers{@}", "{{instance}} workers"),
        ],
    ),
    panel(
        "Busy and rejected",
        Lines,
        "ops",
        "Too many bytes in flight, or shutting down.",
        &[
            ("rate(wirelane_store_busy_total{@}[$__rate_interval])", "{{instance}} busy"),
            ("rate(wirelane_store_rejected_total{@}[$__rate_interval])", "{{instance}} rejected"),
        ],
    ),
];

const DISK: &[Panel] = &[
    panel("Save duration", Lines, "s", "Including the sync, which durable writes wait for.", &[
        ("histogram_quantile(0.5, sum by (instance, le) (rate(wirelane_disk_save_duration_seconds_bucket{@}[$__rate_interval])))", "{{instance}} p50"),
        ("histogram_quantile(0.99, sum by (instance, le) (rate(wirelane_disk_save_duration_seconds_bucket{@}[$__rate_interval])))", "{{instance}} p99"),
    ]).with_limits(0.05, 0.25),
    panel("Saves and writes", Lines, "ops", "Concurrent writes are saved together.", &[
        ("rate(wirelane_disk_saves_total{@}[$__rate_interval])", "{{instance}} saves"),
        ("rate(wirelane_disk_writes_total{@}[$__rate_interval])", "{{instance}} writes"),
    ]),
    panel("Waiting to be saved", Lines, "none", "Writes in the queue.", &[
        ("wirelane_disk_queue{@}", "{{instance}}"),
    ]),
    panel("Disk usage", Lines, "bytes", "Disk space of the data.", &[
        ("wirelane_disk_bytes{@}", "{{instance}}"),
    ]),
    panel("Loads from disk", Lines, "ops", "Values that were not in memory.", &[
        ("rate(wirelane_disk_loads_total{@}[$__rate_interval])", "{{instance}}"),
    ]),
    panel("Failing", States, "bool_yes_no", "Writes are refused while the last save has failed.", &[
        ("wirelane_disk_failing{@}", "{{instance}}"),
    ]).with_limits(1.0, 1.0),
];
