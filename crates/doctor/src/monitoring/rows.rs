//! Every metric of a monitored machine except the counters of node's tables: name, unit and help.
//!
//! Two prefixes: `rdma` for the fabric, like the table's counters, and `wirelane` for the rest. Names of
//! other exporters are not used, so that both may run on one machine.

use metric::Row;

/// Declares rows, and the list of them all.
macro_rules! rows {
    ($all:ident: $( $name:ident = $kind:ident($($part:literal),+); )*) => {
        $(
            #[allow(missing_docs, reason = "the row has its help")]
            pub const $name: Row = Row::$kind($($part),+);
        )*

        /// All of them.
        pub const $all: &[Row] = &[$( $name ),*];
    };
}

// With the prefix `rdma`. Labels: device, port.
rows! { RDMA:
    PORT_STATE = gauge("port_state", "", "State of the port: 1 down, 2 init, 3 armed, 4 active");
    PORT_PHYSICAL_STATE = gauge("port_physical_state", "", "Physical state of the port: 2 polling, 3 disabled, 5 up, 6 recovering");
    PORT_RATE = gauge("port_rate_bytes_per_second", "bytes", "Rate of the port");
    PORT_RATE_EXPECTED = gauge("port_rate_expected_bytes_per_second", "bytes",
        "Expected rate of the port, from its link partner, its cable or ports of the same model");
    COUNTER_SATURATED = gauge("counters_saturated", "", "1 for a saturated counter");
    COUNTER_UNREADABLE = gauge("counters_unreadable", "", "1 for a counter that cannot be read, by reason");
    COUNTERS_RESET = counter("counters_reset_total", "", "How often a counter was lower than before: it wrapped or was reset");
    UNLISTED = counter("unlisted_counters_total", "", "Counters without a metric of their own, by the counter's file name");
    DEVICE_PRESENT = gauge("device_present", "", "1 for each device; 0 if it was removed");
    PROCESS_RESOURCES = gauge("process_resources", "", "Queue pairs, memory regions and other resources of a process");
    PROCESS_REGISTERED = gauge("process_registered_bytes", "bytes", "Memory registered by a process");
}

// With the prefix `wirelane`.
rows! { WIRELANE:
    PORT_INFO = gauge("port_info", "", "1, with properties of the port as labels");

    // Labels: gpu, uuid.
    GPU_INFO = gauge("gpu_info", "", "1, with the GPU's name, PCI address and driver");
    GPU_TEMPERATURE = gauge("gpu_temperature_celsius", "celsius", "Temperature of the chip");
    GPU_MEMORY_TEMPERATURE = gauge("gpu_memory_temperature_celsius", "celsius", "Temperature of the memory");
    GPU_SLOWDOWN_TEMPERATURE = gauge("gpu_slowdown_temperature_celsius", "celsius", "Temperature at which the GPU throttles");
    GPU_UTILIZATION = gauge("gpu_utilization_ratio", "ratio", "Part of the sample period in which a kernel ran");
    GPU_MEMORY_UTILIZATION = gauge("gpu_memory_utilization_ratio", "ratio",
        "Part of the sample period in which memory was read or written");
    GPU_MEMORY_USED = gauge("gpu_memory_used_bytes", "bytes", "Memory in use");
    GPU_MEMORY_FREE = gauge("gpu_memory_free_bytes", "bytes", "Free memory");
    GPU_MEMORY_TOTAL = gauge("gpu_memory_total_bytes", "bytes", "Total memory");
    GPU_POWER = gauge("gpu_power_watts", "watts", "Power draw");
    GPU_POWER_LIMIT = gauge("gpu_power_limit_watts", "watts", "Power limit");
    GPU_ENERGY = counter("gpu_energy_joules_total", "joules", "Energy since the driver was loaded");
    GPU_CLOCK = gauge("gpu_clock_hertz", "hertz", "Clocks by name");
    GPU_CLOCK_MAX = gauge("gpu_clock_max_hertz", "hertz", "Highest clocks by name");
    GPU_THROTTLED = gauge("gpu_throttled", "", "Whether clocks are lower than they could be, by reason");
    GPU_XIDS = counter("gpu_xid_errors_total", "", "XID errors since the exporter started, by number");
    GPU_PCIE_RECEIVE = gauge("gpu_pcie_receive_bytes_per_second", "bytes", "PCIe receive rate, over 20 ms");
    GPU_PCIE_TRANSMIT = gauge("gpu_pcie_transmit_bytes_per_second", "bytes", "PCIe transmit rate, over 20 ms");
    GPU_PCIE_REPLAYS = counter("gpu_pcie_replays_total", "", "PCIe packets that were retransmitted");
    GPU_PCIE_GENERATION = gauge("gpu_pcie_generation", "", "PCIe generation now");
    GPU_PCIE_WIDTH = gauge("gpu_pcie_width_lanes", "lanes", "PCIe lanes now");
    GPU_NVLINK_ACTIVE = gauge("gpu_nvlink_active", "", "Whether an NVLink is up");
    GPU_NVLINK_RECEIVE = counter("gpu_nvlink_receive_bytes_total", "bytes", "Data received by an NVLink");
    GPU_NVLINK_TRANSMIT = counter("gpu_nvlink_transmit_bytes_total", "bytes", "Data sent by an NVLink");
    GPU_NVLINK_ERRORS = counter("gpu_nvlink_errors_total", "", "Errors of an NVLink, by kind");
    GPU_ECC = counter("gpu_ecc_errors_total", "", "Memory errors, by kind, since the driver was loaded or over the GPU's lifetime");
    GPU_REMAPPED = gauge("gpu_remapped_rows", "", "Remapped memory rows, by cause");
    GPU_REMAP_PENDING = gauge("gpu_remap_pending", "", "1 while rows wait for the next reset to be remapped");
    GPU_REMAP_FAILED = gauge("gpu_remap_failed", "", "1 if a row could not be remapped");
    GPU_FAN = gauge("gpu_fan_ratio", "ratio", "Fan speed, as a part of its maximum");
    GPU_PERFORMANCE_STATE = gauge("gpu_performance_state", "", "0 is the fastest");
    GPU_PROCESSES = gauge("gpu_compute_processes", "", "Processes that compute on it");

    // The machine.
    HOST_CPUS = gauge("host_cpus", "", "CPUs");
    HOST_CPU = counter("host_cpu_seconds_total", "seconds", "Time of all CPUs, by mode");
    HOST_LOAD = gauge("host_load1", "", "Load average over one minute");
    HOST_MEMORY = gauge("host_memory_bytes", "bytes", "Memory, by kind");

    // The exporter itself.
    BUILD = gauge("exporter_build_info", "", "1, with the version");
    SUCCESS = gauge("exporter_collector_success", "", "Whether the collector succeeded");
    DURATION = gauge("exporter_collector_duration_seconds", "seconds", "Duration of the collector's last run");
    AGE = gauge("exporter_collector_age_seconds", "seconds", "Age of the collector's last result");
    LEFT_OUT = gauge("exporter_counters_left_out", "", "Counters that are not exported because there are too many, by device");
    TEXTFILE_ERRORS = counter("exporter_textfile_errors_total", "", "Failed writes of the text file");
    SCRAPES = counter("exporter_scrapes_total", "", "Scrapes answered");
}
