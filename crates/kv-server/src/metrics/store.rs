//! The store and its listeners.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::Relaxed;

use access::Refused;
use kv_store::Usage;
use metric::Exposition;

use super::{Server, rows};
use crate::Durability;

pub(super) fn add(answer: &mut Exposition, server: &Server<'_>) {
    let engine = server.engine;
    usage(answer, &engine.store.usage());
    answer.add(&rows::POOL_BYTES, &[], engine.pool().len() as u64);
    let counts = engine.counts();
    for (row, count) in [
        (&rows::BYTES_OUT, &counts.bytes_out),
        (&rows::ZERO_COPY_READS, &counts.zero_copy_reads),
        (&rows::BYTES_IN, &counts.bytes_in),
        (&rows::BATCHES, &counts.batches),
        (&rows::REQUESTS, &counts.requests),
        (&rows::PROTOCOL_ERRORS, &counts.protocol_errors),
        (&rows::IDLE_CLOSED, &counts.idle_closed),
        (&rows::REJECTED, &counts.rejected),
    ] {
        answer.add(row, &[], count.load(Relaxed));
    }
    if let Some(durability) = engine.durability() {
        disk(answer, &durability);
    }
    for refused in Refused::ALL {
        let count = engine.access().refusals().of(refused);
        answer.add(&rows::REFUSED, &[("reason", refused.name())], count);
    }
    let quota = engine.quota();
    answer.add(&rows::IN_FLIGHT, &[], quota.used());
    answer.add(&rows::IN_FLIGHT_MAX, &[], quota.limit());
    answer.add(&rows::BUSY, &[], quota.refused());
    answer.add(&rows::CLIENTS_MAX, &[], u64::from(server.max_clients));
    answer.add(&rows::DRAINING, &[], u64::from(server.is_draining));
    answer.add(&rows::SESSIONS, &[("by", "links")], engine.sessions() as u64);
    answer.add(&rows::SESSIONS, &[("by", "grpc")], server.grpc_sessions.len() as u64);
    if let Some(handle) = server.workers {
        answer.add(&rows::CLIENTS, &[], handle.connections() as u64);
        answer.add(&rows::WORKERS, &[], handle.workers() as u64);
    }
    let grpc = server.grpc;
    for (method, count) in grpc.calls() {
        answer.add(&rows::GRPC_CALLS, &[("method", method)], count);
    }
    for (code, count) in grpc.failures() {
        answer.add(&rows::GRPC_FAILURES, &[("code", code)], count);
    }
    answer.add(&rows::GRPC_CONNECTIONS, &[], grpc.connections() as u64);
    answer.add(&rows::GRPC_REJECTED, &[], grpc.rejected());
    answer.add(&rows::GRPC_STALLED, &[], grpc.stalled());
}

fn disk(answer: &mut Exposition, durability: &Durability<'_>) {
    let Durability { counts, disk } = durability;
    answer.add(&rows::DISK_BYTES, &[], disk.bytes());
    for (row, count) in [
        (&rows::DISK_SAVES, &counts.saves),
        (&rows::DISK_WRITES, &counts.writes),
        (&rows::DISK_FAULTS, &counts.faults),
        (&rows::DISK_LOADS, &counts.loads),
        (&rows::DISK_DAMAGED, &counts.damaged),
    ] {
        answer.add(row, &[], count.load(Relaxed));
    }
    answer.add(&rows::DISK_SAVE_SECONDS, &[], counts.save_times.sum().as_secs_f64());
    super::durations(answer, &rows::DISK_SAVE_DURATION, &counts.save_times, SAVES);
    answer.add(&rows::DISK_QUEUE, &[], counts.queue());
    answer.add(&rows::DISK_FAILING, &[], u64::from(counts.is_failing()));
}

/// Bounds in doublings of a nanosecond: 131 µs to 17 s.
const SAVES: RangeInclusive<u32> = 17..=34;

fn usage(answer: &mut Exposition, usage: &Usage) {
    for (row, value) in [
        (&rows::KEYS, usage.keys),
        (&rows::VALUE_BYTES, usage.value_bytes),
        (&rows::POOL_USED, usage.used_bytes),
        (&rows::POOL_FREE, usage.free_bytes),
        (&rows::POOL_LARGEST_FREE, usage.largest_free),
        (&rows::POOL_RESERVED, usage.reserved_bytes),
        (&rows::INDEX_BYTES, usage.index_bytes),
        (&rows::PINS, usage.pins),
        (&rows::PINNED, usage.pinned_bytes),
        (&rows::DETACHED, usage.detached),
        (&rows::HITS, usage.hits),
        (&rows::MISSES, usage.misses),
        (&rows::PUTS, usage.puts),
        (&rows::DELETES, usage.deletes),
        (&rows::EVICTIONS, usage.evicted),
        (&rows::EXPIRATIONS, usage.expired),
    ] {
        answer.add(row, &[], value);
    }
}
