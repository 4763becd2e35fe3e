//! Every metric, one row each: its name without the prefix, unit and meaning. docs/operations.md lists the
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
    // What the store holds.
    KEYS = gauge("store_keys", "", "Keys, those included that have expired and were not removed yet");
    VALUE_BYTES = gauge("store_value_bytes", "bytes", "Bytes of all values");
    POOL_BYTES = gauge("pool_bytes", "bytes", "Memory for values");
    POOL_USED = gauge("pool_used_bytes", "bytes", "Memory taken by values and reservations");
    POOL_FREE = gauge("pool_free_bytes", "bytes", "Memory that nothing has taken");
    POOL_LARGEST_FREE = gauge("pool_largest_free_bytes", "bytes", "Longest run of free memory");
    POOL_RESERVED = gauge("pool_reserved_bytes", "bytes", "Memory of values that are being written");
    INDEX_BYTES = gauge("index_bytes", "bytes", "Memory of the index, beside the pool");
    PINS = gauge("store_pins", "", "Reads in flight");
    PINNED = gauge("store_pinned_bytes", "bytes", "Bytes of the values these read");
    DETACHED = gauge("store_detached_values", "", "Values that are gone but for their last readers");

    // What the store has done.
    HITS = counter("store_hits_total", "", "Reads that found their key");
    MISSES = counter("store_misses_total", "", "Reads that did not");
    PUTS = counter("store_puts_total", "", "Values written");
    DELETES = counter("store_deletes_total", "", "Keys deleted");
    EVICTIONS = counter("store_evictions_total", "", "Values evicted to make room");
    EXPIRATIONS = counter("store_expirations_total", "", "Values removed because their time had come");
    BYTES_OUT = counter("store_read_bytes_total", "bytes", "Bytes of values given to clients");
    ZERO_COPY_READS = counter("store_zero_copy_reads_total", "", "Values that clients on this host read where they lie");
    BYTES_IN = counter("store_written_bytes_total", "bytes", "Bytes of values taken from clients");

    // The disk, where there is one.
    DISK_BYTES = gauge("disk_bytes", "bytes", "What the data takes on the disk");
    DISK_SAVES = counter("disk_saves_total", "", "How often changes were saved together, each with one sync");
    DISK_WRITES = counter("disk_writes_total", "", "Writes that were saved so");
    DISK_SAVE_SECONDS = counter("disk_save_seconds_total", "seconds", "How long saving took, in all");
    DISK_SAVE_DURATION = histogram("disk_save_duration_seconds", "seconds", "How long a save took, with its sync");
    DISK_QUEUE = gauge("disk_queue", "", "Writes that wait to be saved");
    DISK_FAULTS = counter("disk_faults_total", "", "Saves that failed, so that their writes were refused");
    DISK_FAILING = gauge("disk_failing", "", "1 while the last save has failed");
    DISK_LOADS = counter("disk_loads_total", "", "Values fetched from the disk");
    DISK_DAMAGED = counter("disk_damaged_total", "", "Values found damaged on the disk");

    // The store's listeners.
    BATCHES = counter("store_batches_total", "", "Batches of requests answered on links");
    REQUESTS = counter("store_requests_total", "", "Requests in them");
    PROTOCOL_ERRORS = counter("store_protocol_errors_total", "", "Links closed for what no client of ours sends");
    IDLED = counter("store_idled_handles_total", "",
        "Cursors and staged values of links that stood unused for too long");
    REFUSED = counter("access_refused_total", "",
        "Callers and requests that were refused, by reason");
    TURNED_AWAY = counter("store_turned_away_total", "",
        "Batches on links that came when the server was shutting down: nothing of them was done");
    IN_FLIGHT = gauge("store_in_flight_bytes", "bytes",
        "Bytes of values on their way in, reserved or staged");
    IN_FLIGHT_MAX = gauge("store_in_flight_max_bytes", "bytes", "How many there may be (--max-in-flight)");
    BUSY = counter("store_busy_total", "", "Writes put off since there were as many");
    CLIENTS_MAX = gauge("store_clients_max", "", "How many links there may be (--max-clients)");
    DRAINING = gauge("draining", "", "1 from the first signal on, when nothing more is begun");
    SESSIONS = gauge("store_sessions", "", "Sessions that are remembered, by the listener they came in by");
    CLIENTS = gauge("store_clients", "", "Links served");
    WORKERS = gauge("store_workers", "", "Threads that serve them");
    GRPC_CALLS = counter("grpc_calls_total", "", "Calls by gRPC, by method");
    GRPC_FAILURES = counter("grpc_failures_total", "", "Calls that were refused, by code");
    GRPC_CONNECTIONS = gauge("grpc_connections", "", "HTTP/2 connections");
    GRPC_TURNED_AWAY = counter("grpc_turned_away_total", "",
        "Connections closed: too many, or no HTTP/2");
    GRPC_IDLED = counter("grpc_idled_total", "",
        "Answers that nobody read for too long, which cost their connections");

    // RDMA: what lanes by devices did, over verbs or libfabric, at this end.
    SEND_LATENCY = summary("rdma_send_latency_ns", "ns",
        "From post to completion of sends, writes and reads; one in 32 is timed");
    SEND_LATENCY_SECONDS = histogram("rdma_send_latency_seconds", "seconds", "The same, in buckets that can be added up");
    RDMA_SENT = counter("rdma_bytes_sent_total", "bytes", "Payload of sends and writes");
    RDMA_RECEIVED = counter("rdma_bytes_received_total", "bytes",
        "Payload of receives and of our own reads");
    RDMA_SEND_BYTES = counter("rdma_send_bytes_total", "bytes", "Bytes of sends: messages, with the link's headers");
    RDMA_RECEIVE_BYTES = counter("rdma_recv_bytes_total", "bytes", "Bytes of receives: the peers' messages, with headers");
    RDMA_WRITE_BYTES = counter("rdma_write_bytes_total", "bytes", "Bytes that were written into peers' memory");
    RDMA_READ_BYTES = counter("rdma_read_bytes_total", "bytes", "Bytes that were read from peers' memory");
    RDMA_SENDS = counter("rdma_send_operations_total", "", "Sends that are over");
    RDMA_RECEIVES = counter("rdma_recv_operations_total", "", "Receives that are over");
    RDMA_WRITES = counter("rdma_write_operations_total", "", "Writes into peers' memory");
    RDMA_READS = counter("rdma_read_operations_total", "", "Reads of peers' memory");
    RDMA_SEND_ERRORS = counter("rdma_send_errors_total", "", "Sends, writes and reads that failed");
    RDMA_RECV_ERRORS = counter("rdma_recv_errors_total", "", "Receives that failed");
    RDMA_CONNECTED = gauge("rdma_connected", "", "Rails that are up, by device");

    // Links and their listener.
    LINKS = gauge("links", "", "Links that are up, by the kind of lane in use");
    LINKS_BELOW_BEST = gauge("links_below_best", "",
        "Links that go by a lesser kind of lane than was planned for them, by the kind in use");
    LINK_EVENTS = counter("link_events_total", "", "What happened to links, by kind");
    LISTENER_ACCEPTED = counter("listener_accepted_total", "", "Peers that were let in");
    LISTENER_REFUSED = counter("listener_refused_total", "", "Callers that were sent away, by reason");
    LISTENER_OTHERS = counter("listener_others_total", "",
        "Connections that speak something else than links do");
    LISTENER_STARVED = counter("listener_starved_total", "",
        "How often callers waited since there was no descriptor left");
    LISTENER_HALF_OPEN = gauge("listener_half_open", "", "Handshakes in flight");

    // The process.
    BUILD = gauge("build_info", "", "1, with the version");
    RESIDENT = gauge("process_resident_memory_bytes", "bytes", "Memory of this process that is there");
    CPU = counter("process_cpu_seconds_total", "seconds", "CPU time");
    DESCRIPTORS = gauge("process_open_fds", "", "Open descriptors");
    DESCRIPTORS_MAX = gauge("process_max_fds", "", "How many there may be");
    THREADS = gauge("process_threads", "", "Threads");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The first cell of every row of the table: `name`, kind.
    #[test]
    fn the_documentation_lists_the_same() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
        let text = std::fs::read_to_string(file).expect("the documentation");
        let row = |line: &'_ str| {
            let mut cells = line.strip_prefix("| `wirelane_")?.split(" | ");
            let name = cells.next()?.split(['`', '{']).next()?.to_owned();
            Some((name, cells.next()?.to_owned()))
        };
        let told: BTreeSet<(String, String)> = text.lines().filter_map(row).collect();
        let all = ALL.iter().map(|row| (row.name().to_owned(), row.kind().name().to_owned()));
        assert_eq!(told, all.collect());
    }

    #[test]
    fn names_are_given_once() {
        let names: BTreeSet<&str> = ALL.iter().map(|row| row.name()).collect();
        assert_eq!(names.len(), ALL.len());
    }
}
