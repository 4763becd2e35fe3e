//! Every metric of a watched machine but the counters of node's table: its name, unit and meaning.
//!
//! Two prefixes: `rdma` for what the fabric is and does, beside the table's counters, and `wirelane` for the rest. Names of
//! other exporters are not used, so that both may run on one machine. No name has a metric's type as a word: Prometheus's
//! own checker finds fault with that.

use metric::Row;

/// Declares rows, and the list of them all.
macro_rules! rows {
    ($all:ident: $( $name:ident = $kind:ident($($part:literal),+); )*) => {
        $(
            #[allow(missing_docs, reason = "the row itself says what it means")]
            pub const $name: Row = Row::$kind($($part),+);
        )*

        /// All of them.
        pub const $all: &[Row] = &[$( $name ),*];
    };
}

// With the prefix `rdma`. Labels: device, port.
rows! { RDMA:
    PORT_STATE = gauge("port_state", "", "State of the port: 1 down, 2 init, 3 armed, 4 active");
    PORT_PHYSICAL_STATE = gauge("port_physical_state", "", "State of the wire: 2 polling, 3 disabled, 5 up, 6 recovering");
    PORT_RATE = gauge("port_rate_bytes_per_second", "bytes", "What the port runs at");
    PORT_RATE_EXPECTED = gauge("port_rate_expected_bytes_per_second", "bytes",
        "What the port should run at, by its other end, its cable or its neighbours");
    COUNTER_SATURATED = gauge("counters_saturated", "", "1 for a saturated counter");
    COUNTER_UNREADABLE = gauge("counters_unreadable", "", "1 for a counter that is there and cannot be read, by reason");
    COUNTER_WENT_BACK = counter("counters_went_back_total", "", "How often a counter was lower than before: it wrapped or was reset");
    UNLISTED = counter("unlisted_counters_total", "", "Counters that have no name here, by the driver's own");
    DEVICE_PRESENT = gauge("device_present", "", "1 for each device; 0 once it is gone");
    PROCESS_RESOURCES = gauge("process_resources", "", "Queue pairs, memory regions and others that a process holds");
    PROCESS_REGISTERED = gauge("process_registered_bytes", "bytes", "Memory that a process has registered");
}

// With the prefix `wirelane`.
rows! { OWN:
    PORT_INFO = gauge("port_info", "", "1, with what a port is and belongs to");

    // Labels: gpu, uuid.
    GPU_INFO = gauge("gpu_info", "", "1, with the GPU's name, PCI address and driver");
    GPU_TEMPERATURE = gauge("gpu_temperature_celsius", "celsius", "Temperature of the chip");
    GPU_MEMORY_TEMPERATURE = gauge("gpu_memory_temperature_celsius", "celsius", "Temperature of the memory");
    GPU_SLOWDOWN_TEMPERATURE = gauge("gpu_slowdown_temperature_celsius", "celsius", "Where the GPU slows itself down");
    GPU_UTILIZATION = gauge("gpu_utilization_ratio", "ratio", "Part of the last moment in which a kernel ran");
    GPU_MEMORY_UTILIZATION = gauge("gpu_memory_utilization_ratio", "ratio",
        "Part of the last moment in which memory was read or written");
    GPU_MEMORY_USED = gauge("gpu_memory_used_bytes", "bytes", "Memory in use");
    GPU_MEMORY_FREE = gauge("gpu_memory_free_bytes", "bytes", "Memory that is free");
    GPU_MEMORY_TOTAL = gauge("gpu_memory_total_bytes", "bytes", "Memory that there is");
    GPU_POWER = gauge("gpu_power_watts", "watts", "Power that it draws");
    GPU_POWER_LIMIT = gauge("gpu_power_limit_watts", "watts", "Power that it may draw");
    GPU_ENERGY = counter("gpu_energy_joules_total", "joules", "Energy since the driver was loaded");
    GPU_CLOCK = gauge("gpu_clock_hertz", "hertz", "Clocks by name");
    GPU_CLOCK_MAX = gauge("gpu_clock_max_hertz", "hertz", "Highest clocks by name");
    GPU_THROTTLED = gauge("gpu_throttled", "", "Whether clocks are lower than they could be, by reason");
    GPU_XIDS = counter("gpu_xid_errors_total", "", "XID errors since the exporter started, by number");
    GPU_PCIE_RECEIVE = gauge("gpu_pcie_receive_bytes_per_second", "bytes", "What comes in by PCIe, over 20 ms");
    GPU_PCIE_TRANSMIT = gauge("gpu_pcie_transmit_bytes_per_second", "bytes", "What goes out by PCIe, over 20 ms");
    GPU_PCIE_REPLAYS = counter("gpu_pcie_replays_total", "", "PCIe packets that were sent again");
    GPU_PCIE_GENERATION = gauge("gpu_pcie_generation", "", "PCIe generation now");
    GPU_PCIE_WIDTH = gauge("gpu_pcie_width_lanes", "lanes", "PCIe lanes now");
    GPU_NVLINK_ACTIVE = gauge("gpu_nvlink_active", "", "Whether an NVLink is up");
    GPU_NVLINK_RECEIVE = counter("gpu_nvlink_receive_bytes_total", "bytes", "Data received by an NVLink");
    GPU_NVLINK_TRANSMIT = counter("gpu_nvlink_transmit_bytes_total", "bytes", "Data sent by an NVLink");
    GPU_NVLINK_ERRORS = counter("gpu_nvlink_errors_total", "", "Errors of an NVLink, by kind");
    GPU_ECC = counter("gpu_ecc_errors_total", "", "Errors of memory, by kind, since the driver was loaded or in the GPU's life");
    GPU_REMAPPED = gauge("gpu_remapped_rows", "", "Rows of memory that were replaced, by cause");
    GPU_REMAP_PENDING = gauge("gpu_remap_pending", "", "1 while rows wait for a reset to be replaced");
    GPU_REMAP_FAILED = gauge("gpu_remap_failed", "", "1 once a row could not be replaced");
    GPU_FAN = gauge("gpu_fan_ratio", "ratio", "Fans, as part of their most");
    GPU_PERFORMANCE_STATE = gauge("gpu_performance_state", "", "0 is the fastest");
    GPU_PROCESSES = gauge("gpu_compute_processes", "", "Processes that compute on it");

    // The machine.
    HOST_CPUS = gauge("host_cpus", "", "CPUs");
    HOST_CPU = counter("host_cpu_seconds_total", "seconds", "Time of all CPUs, by what they did");
    HOST_LOAD = gauge("host_load1", "", "Tasks that want to run, over the last minute");
    HOST_MEMORY = gauge("host_memory_bytes", "bytes", "Memory, by kind");

    // The exporter itself.
    BUILD = gauge("exporter_build_info", "", "1, with the version");
    SUCCESS = gauge("exporter_collector_success", "", "Whether a collector got what there is");
    DURATION = gauge("exporter_collector_duration_seconds", "seconds", "How long a collector took");
    AGE = gauge("exporter_collector_age_seconds", "seconds", "How old what a collector tells is");
    LEFT_OUT = gauge("exporter_counters_left_out", "", "Counters that are too many to be told, by device");
    TEXTFILE_ERRORS = counter("exporter_textfile_errors_total", "", "Times that the text file could not be written");
    SCRAPES = counter("exporter_scrapes_total", "", "Scrapes answered");
}
