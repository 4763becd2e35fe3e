//! The store of `wirelane serve`, and its disk.

use super::panel::PanelKind::{Lines, Number, States, Table};
use super::panel::{Panel, panel};
use super::{Dashboard, Section};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    file: "store",
    title: "Wirelane: store",
    about: "Keys, memory, requests and the disk of each store, by `wirelane serve`.",
    target_metric: "wirelane_pool_bytes",
    labels: &[],
    sections: &[
        Section { title: "Now", panels: NOW },
        Section { title: "Requests", panels: REQUESTS },
        Section { title: "Memory", panels: MEMORY },
        Section { title: "Clients", panels: CLIENTS },
        Section { title: "Disk, where there is one", panels: DISK },
    ],
};

const NOW: &[Panel] = &[
    panel("Keys", Number, "short", "Of all stores.", &[
        ("sum(wirelane_store_keys{@})", ""),
    ]),
    panel("Fullest", Number, "percentunit", "The store with the least room.", &[
        ("max(wirelane_pool_used_bytes{@} / wirelane_pool_bytes{@})", ""),
    ]).with_limits(0.8, 0.9),
    panel("Hits", Number, "percentunit", "Reads that found their key, over five minutes.", &[
        ("sum(rate(wirelane_store_hits_total{@}[5m])) / (sum(rate(wirelane_store_hits_total{@}[5m])) + sum(rate(wirelane_store_misses_total{@}[5m])))", ""),
    ]),
    panel("Clients", Number, "none", "Links served.", &[
        ("sum(wirelane_store_clients{@})", ""),
    ]),
    panel("Slowest sync", Number, "s", "One save in a hundred took longer, over five minutes.", &[
        ("max(histogram_quantile(0.99, sum by (instance, le) (rate(wirelane_disk_save_duration_seconds_bucket{@}[5m]))))", ""),
    ]).with_limits(0.05, 0.25),
    panel("Failing disks", Number, "none", "Stores whose last save failed.", &[
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
        "On links, of the last two scrapes.",
        &[("irate(wirelane_store_requests_total{@}[$__rate_interval])", "{{instance}}")],
    ),
    panel(
        "Reads and writes",
        Lines,
        "ops",
        "By what came of them.",
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
        "Reads that found their key.",
        &[("wirelane:store_hit_ratio:rate5m{@}", "{{instance}}")],
    ),
    panel(
        "Bytes",
        Lines,
        "Bps",
        "Of values given to clients, and taken.",
        &[
            ("irate(wirelane_store_read_bytes_total{@}[$__rate_interval])", "{{instance}} read"),
            (
                "irate(wirelane_store_written_bytes_total{@}[$__rate_interval])",
                "{{instance}} written",
            ),
        ],
    ),
    panel(
        "Requests in a batch",
        Lines,
        "none",
        "On average.",
        &[(
            "rate(wirelane_store_requests_total{@}[$__rate_interval]) / rate(wirelane_store_batches_total{@}[$__rate_interval])",
            "{{instance}}",
        )],
    ),
    panel(
        "Read where they lie",
        Lines,
        "ops",
        "Values that clients on the same host read in the pool itself.",
        &[("rate(wirelane_store_zero_copy_reads_total{@}[$__rate_interval])", "{{instance}}")],
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
            ("wirelane_pool_bytes{@}", "{{instance}} in all"),
        ],
    ),
    panel(
        "How full",
        Lines,
        "percentunit",
        "A store that evicts stays nearly full.",
        &[("wirelane_pool_used_bytes{@} / wirelane_pool_bytes{@}", "{{instance}}")],
    )
    .with_limits(0.8, 0.9),
    panel(
        "Longest run of free memory",
        Lines,
        "bytes",
        "No longer value can be put without making room.",
        &[("wirelane_pool_largest_free_bytes{@}", "{{instance}}")],
    ),
    panel(
        "Keys",
        Lines,
        "short",
        "Those included that have expired and were not removed yet.",
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
        "On their way in",
        Lines,
        "bytes",
        "Values that are being written, and how much there may be.",
        &[
            ("wirelane_store_in_flight_bytes{@}", "{{instance}}"),
            ("wirelane_store_in_flight_max_bytes{@}", "{{instance}} most"),
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
        "Put off and rejected",
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
    panel("How long saves take", Lines, "s", "With their sync; durable writes wait for it.", &[
        ("histogram_quantile(0.5, sum by (instance, le) (rate(wirelane_disk_save_duration_seconds_bucket{@}[$__rate_interval])))", "{{instance}} half"),
        ("histogram_quantile(0.99, sum by (instance, le) (rate(wirelane_disk_save_duration_seconds_bucket{@}[$__rate_interval])))", "{{instance}} 99 %"),
    ]).with_limits(0.05, 0.25),
    panel("Saves and writes", Lines, "ops", "Writes that come together are saved together.", &[
        ("rate(wirelane_disk_saves_total{@}[$__rate_interval])", "{{instance}} saves"),
        ("rate(wirelane_disk_writes_total{@}[$__rate_interval])", "{{instance}} writes"),
    ]),
    panel("Waiting to be saved", Lines, "none", "Writes in the queue.", &[
        ("wirelane_disk_queue{@}", "{{instance}}"),
    ]),
    panel("On the disk", Lines, "bytes", "What the data takes.", &[
        ("wirelane_disk_bytes{@}", "{{instance}}"),
    ]),
    panel("Fetched from the disk", Lines, "ops", "Values that were not in memory.", &[
        ("rate(wirelane_disk_loads_total{@}[$__rate_interval])", "{{instance}}"),
    ]),
    panel("Failing", States, "bool_yes_no", "While the last save has failed, writes are refused.", &[
        ("wirelane_disk_failing{@}", "{{instance}}"),
    ]).with_limits(1.0, 1.0),
];
