//! Every metric, one row each: its name without the prefix, unit and help. docs/operations.md lists the
//! same, and a test compares the two.

use metric::Row;

/// Declares the rows, and the list of them all.
macro_rules! rows {
    ($( $name:ident = $kind:ident($($part:literal),+); )*) => {
        $( pub(super) const $name: Row = Row::$kind($($part),+); )*

        #[cfg(test)]
        pub(super) const ALL: &[Row] = &[$( $name ),*];
    };
}

rows! {
    // The content of the store.
    KEYS = gauge("store_keys", "", "Keys, including expired ones that are not removed yet");
    VALUE_BYTES = gauge("store_value_bytes", "bytes", "Bytes of all values");
    POOL_BYTES = gauge("pool_bytes", "bytes", "Memory for values");
    POOL_USED = gauge("pool_used_bytes", "bytes", "Memory allocated to values and reservations");
    POOL_FREE = gauge("pool_free_bytes", "bytes", "Free memory");
    POOL_LARGEST_FREE = gauge("pool_largest_free_bytes", "bytes", "Longest run of free memory");
    POOL_RESERVED = gauge("pool_reserved_bytes", "bytes", "Memory of values that are being written");
    INDEX_BYTES = gauge("index_bytes", "bytes", "Memory of the index, beside the pool");
    PINS = gauge("store_pins", "", "Reads in flight");
    PINNED = gauge("store_pinned_bytes", "bytes", "Bytes of values being read");
    DETACHED = gauge("store_detached_values", "", "Values that were replaced or removed and are still being read");

    // Operations of the store.
    HITS = counter("store_hits_total", "", "Reads that found their key");
    MISSES = counter("store_misses_total", "", "Reads that did not find their key");
    PUTS = counter("store_puts_total", "", "Values written");
    DELETES = counter("store_deletes_total", "", "Keys deleted");
    EVICTIONS = counter("store_evictions_total", "", "Values evicted to free memory");
    EXPIRATIONS = counter("store_expirations_total", "", "Values removed because they expired");
    BYTES_OUT = counter("store_read_bytes_total", "bytes", "Bytes of values sent to clients");
    IN_PLACE_READS = counter("store_in_place_reads_total", "", "Values that clients on this host read in place");
    BYTES_IN = counter("store_written_bytes_total", "bytes", "Bytes of values received from clients");

    // The disk, if the store has one.
    DISK_INFO = gauge("disk_info", "", "1, with the data directory and its UUID");
    DISK_BYTES = gauge("disk_bytes", "bytes", "Size of the data on disk");
    DISK_LOG_BYTES = gauge("disk_log_bytes", "bytes", "Size of the log on disk, with what is no longer needed of it");
    DISK_LAST_SAVE = gauge("disk_last_save_timestamp_seconds", "seconds",
        "When writes were last saved, in seconds since 1970; 0 before the first");
    DISK_SAVES = counter("disk_saves_total", "", "Batches of writes saved, each with one sync");
    DISK_WRITES = counter("disk_writes_total", "", "Writes in these batches");
    DISK_SAVE_SECONDS = counter("disk_save_seconds_total", "seconds", "Total time of saving");
    DISK_SAVE_DURATION = histogram("disk_save_duration_seconds", "seconds", "Time of a save, with its sync");
    DISK_SAVE_RUNNING = gauge("disk_save_running_seconds", "seconds", "How long the current save has run; 0 if there is none");
    DISK_QUEUE = gauge("disk_queue", "", "Writes that wait to be saved");
    DISK_SAVE_FAILURES = counter("disk_save_failures_total", "", "Saves that failed; their writes were rejected");
    DISK_FAILING = gauge("disk_failing", "", "1 if the last save failed, or the files were removed, moved or replaced");
    DISK_LOADS = counter("disk_loads_total", "", "Values loaded from disk");
    DISK_DAMAGED = counter("disk_damaged_total", "", "Values found damaged on disk");
    CLOCK_SET = counter("clock_set_seconds_total", "seconds", "By how much the wall clock was set since the start, forward or back");
    SUSPENDED = counter("suspended_seconds_total", "seconds", "How long the machine slept since the start");

    // The store's listeners.
    BATCHES = counter("store_batches_total", "", "Batches of requests answered on links");
    REQUESTS = counter("store_requests_total", "", "Requests in these batches");
    PROTOCOL_ERRORS = counter("store_protocol_errors_total", "", "Links closed because of a protocol error");
    IDLE_CLOSED = counter("store_idle_handles_closed_total", "",
        "Read handles and staged values that were closed because they were idle");
    ACCESS_REJECTED = counter("access_rejected_total", "",
        "Callers and requests that were rejected, by reason");
    REJECTED = counter("store_rejected_total", "",
        "Batches on links that were rejected, unexecuted, because the server was shutting down");
    IN_FLIGHT = gauge("store_in_flight_bytes", "bytes",
        "Bytes of values that are being written, reserved or staged");
    IN_FLIGHT_MAX = gauge("store_in_flight_max_bytes", "bytes", "Limit of bytes in flight (--max-in-flight)");
    BUSY = counter("store_busy_total", "", "Writes rejected as busy because of --max-in-flight");
    CLIENTS_MAX = gauge("store_clients_max", "", "Limit of links (--max-clients)");
    DRAINING = gauge("draining", "", "1 while the server is shutting down and rejects new requests");
    SESSIONS = gauge("store_sessions", "", "Sessions, by protocol");
    SESSION_BYTES = gauge("store_session_bytes", "bytes",
        "Memory of the sessions: the writes whose repetition gets the first answer, by protocol");
    SESSION_BYTES_MAX = gauge("store_session_bytes_max", "bytes",
        "Limit of that memory, by protocol");
    SESSIONS_EVICTED = counter("store_sessions_evicted_total", "",
        "Sessions removed before their time to stay within the limits, by protocol");
    CLIENTS = gauge("store_clients", "", "Links served");
    WORKERS = gauge("store_workers", "", "Threads that serve links");
    GRPC_CALLS = counter("grpc_calls_total", "", "gRPC calls, by method");
    GRPC_FAILURES = counter("grpc_failures_total", "", "gRPC calls that failed, by code");
    GRPC_CONNECTIONS = gauge("grpc_connections", "", "HTTP/2 connections");
    GRPC_REJECTED = counter("grpc_rejected_total", "",
        "Connections rejected: too many, or not HTTP/2");
    GRPC_STALLED = counter("grpc_stalled_total", "",
        "Answers that were not read in time, so that their connections were closed");

    // RDMA: operations of the lanes over verbs or libfabric, at this end.
    SEND_LATENCY = summary("rdma_send_latency_ns", "ns",
        "From post to completion of sends, writes and reads; one in 32 is timed");
    SEND_LATENCY_SECONDS = histogram("rdma_send_latency_seconds", "seconds", "The same, as a histogram that can be aggregated");
    RDMA_TRANSMIT_PAYLOAD = counter("rdma_transmit_payload_bytes_total", "bytes",
        "RDMA payload transmitted: bytes of sends and writes, without peers' reads");
    RDMA_RECEIVE_PAYLOAD = counter("rdma_receive_payload_bytes_total", "bytes",
        "RDMA payload received: bytes of receives and of this end's reads, without peers' writes");
    RDMA_SEND_BYTES = counter("rdma_send_bytes_total", "bytes", "Bytes of sends: messages, with the link's headers");
    RDMA_RECEIVE_BYTES = counter("rdma_recv_bytes_total", "bytes", "Bytes of receives: the peers' messages, with headers");
    RDMA_WRITE_BYTES = counter("rdma_write_bytes_total", "bytes", "Bytes written into peers' memory");
    RDMA_READ_BYTES = counter("rdma_read_bytes_total", "bytes", "Bytes read from peers' memory");
    RDMA_SENDS = counter("rdma_send_operations_total", "", "Sends completed");
    RDMA_RECEIVES = counter("rdma_recv_operations_total", "", "Receives completed");
    RDMA_WRITES = counter("rdma_write_operations_total", "", "Writes into peers' memory");
    RDMA_READS = counter("rdma_read_operations_total", "", "Reads of peers' memory");
    RDMA_SEND_ERRORS = counter("rdma_send_errors_total", "", "Sends, writes and reads that failed");
    RDMA_RECV_ERRORS = counter("rdma_recv_errors_total", "", "Receives that failed");
    RDMA_UNRELEASED = counter("rdma_unreleased_objects_total", "",
        "Objects that a device or provider refused to release; their memory is kept");
    RDMA_RAILS_UP = gauge("rdma_rails_up", "", "Rails that are up, by device");

    // Links and their listener.
    LINKS = gauge("links", "", "Links that are up, by the transport in use");
    LINKS_BELOW_BEST = gauge("links_below_best", "",
        "Links that use a slower transport than planned, by the transport in use");
    LINK_EVENTS = counter("link_events_total", "", "Events of links, by kind");
    LISTENER_ACCEPTED = counter("listener_accepted_total", "", "Peers that were accepted");
    LISTENER_REJECTED = counter("listener_rejected_total", "", "Peers that were rejected, by reason");
    LISTENER_OTHER_PROTOCOL = counter("listener_other_protocol_total", "",
        "Connections with another protocol than that of links");
    LISTENER_FD_EXHAUSTED = counter("listener_fd_exhausted_total", "",
        "How often accepting was delayed because there were no free file descriptors");
    LISTENER_HALF_OPEN = gauge("listener_half_open", "", "Handshakes in flight");

    // The process.
    BUILD = gauge("build_info", "", "1, with the version");
    RESIDENT = gauge("process_resident_memory_bytes", "bytes", "Resident memory of this process");
    CPU = counter("process_cpu_seconds_total", "seconds", "CPU time");
    DESCRIPTORS = gauge("process_open_fds", "", "Open descriptors");
    DESCRIPTORS_MAX = gauge("process_max_fds", "", "Limit of open descriptors");
    THREADS = gauge("process_threads", "", "Threads");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The first cell of every row of the table: `name`, kind.
    #[test]
    fn the_documentation_lists_all_metrics() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
        let text = std::fs::read_to_string(file).expect("the documentation");
        let row = |line: &'_ str| {
            let mut cells = line.strip_prefix("| `wirelane_")?.split(" | ");
            let name = cells.next()?.split(['`', '{']).next()?.to_owned();
            Some((name, cells.next()?.to_owned()))
        };
        let documented: BTreeSet<(String, String)> = text.lines().filter_map(row).collect();
        let all = ALL.iter().map(|row| (row.name().to_owned(), row.kind().name().to_owned()));
        assert_eq!(documented, all.collect());
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = ALL.iter().map(|row| row.name()).collect();
        assert_eq!(names.len(), ALL.len());
    }
}
