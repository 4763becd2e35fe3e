//! The store and its listeners.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::Relaxed;

use access::Refused;
use kv_store::Usage;
use metric::Exposition;

use super::{Server, rows};
use crate::DiskStatus;

pub(super) fn add(exposition: &mut Exposition, server: &Server<'_>) {
    let engine = server.engine;
    usage(exposition, &engine.index.usage());
    exposition.add(&rows::POOL_BYTES, &[], engine.pool().len() as u64);
    let counts = engine.counts();
    for (row, count) in [
        (&rows::BYTES_OUT, &counts.bytes_out),
        (&rows::IN_PLACE_READS, &counts.in_place_reads),
        (&rows::BYTES_IN, &counts.bytes_in),
        (&rows::BATCHES, &counts.batches),
        (&rows::REQUESTS, &counts.requests),
        (&rows::PROTOCOL_ERRORS, &counts.protocol_errors),
        (&rows::IDLE_CLOSED, &counts.idle_closed),
        (&rows::REJECTED, &counts.refused),
    ] {
        exposition.add(row, &[], count.load(Relaxed));
    }
    if let Some(status) = engine.disk_status() {
        disk(exposition, &status);
    }
    for refused in Refused::ALL {
        let count = engine.access().refusals().of(refused);
        exposition.add(&rows::ACCESS_REJECTED, &[("reason", refused.name())], count);
    }
    let clock = engine.clock();
    exposition.add(&rows::CLOCK_SET, &[], clock.set_seconds());
    exposition.add(&rows::SUSPENDED, &[], clock.slept_seconds());
    let quota = engine.quota();
    exposition.add(&rows::IN_FLIGHT, &[], quota.used());
    exposition.add(&rows::IN_FLIGHT_MAX, &[], quota.limit());
    exposition.add(&rows::BUSY, &[], quota.refused());
    exposition.add(&rows::CLIENTS_MAX, &[], u64::from(server.max_clients));
    exposition.add(&rows::DRAINING, &[], u64::from(server.is_draining));
    for (protocol, sessions) in [("link", engine.sessions()), ("grpc", server.grpc_sessions)] {
        let labels = [("protocol", protocol)];
        exposition.add(&rows::SESSIONS, &labels, sessions.len() as u64);
        exposition.add(&rows::SESSION_BYTES, &labels, sessions.bytes() as u64);
        exposition.add(&rows::SESSION_BYTES_MAX, &labels, sessions.max_bytes() as u64);
        exposition.add(&rows::SESSIONS_EVICTED, &labels, sessions.evicted());
    }
    if let Some(handle) = server.workers {
        exposition.add(&rows::CLIENTS, &[], handle.connections() as u64);
        exposition.add(&rows::WORKERS, &[], handle.workers() as u64);
    }
    let grpc = server.grpc;
    for (method, count) in grpc.calls() {
        exposition.add(&rows::GRPC_CALLS, &[("method", method)], count);
    }
    for (code, count) in grpc.failures() {
        exposition.add(&rows::GRPC_FAILURES, &[("code", code)], count);
    }
    exposition.add(&rows::GRPC_CONNECTIONS, &[], grpc.connections() as u64);
    exposition.add(&rows::GRPC_REJECTED, &[], grpc.refused());
    exposition.add(&rows::GRPC_STALLED, &[], grpc.stalled());
}

fn disk(exposition: &mut Exposition, status: &DiskStatus<'_>) {
    let DiskStatus { counts, disk } = status;
    let path = disk.path().to_string_lossy();
    let labels = [("path", &path[..]), ("store", disk.store_id().unwrap_or_default())];
    exposition.add(&rows::DISK_INFO, &labels, 1u64);
    exposition.add(&rows::DISK_BYTES, &[], disk.bytes());
    exposition.add(&rows::DISK_LOG_BYTES, &[], disk.log_bytes());
    for (row, count) in [
        (&rows::DISK_LAST_SAVE, &counts.last_save),
        (&rows::DISK_SAVES, &counts.saves),
        (&rows::DISK_WRITES, &counts.writes),
        (&rows::DISK_SAVE_FAILURES, &counts.save_failures),
        (&rows::DISK_LOADS, &counts.loads),
        (&rows::DISK_DAMAGED, &counts.damaged),
    ] {
        exposition.add(row, &[], count.load(Relaxed));
    }
    exposition.add(&rows::DISK_SAVE_SECONDS, &[], counts.save_times.sum().as_secs_f64());
    super::durations(exposition, &rows::DISK_SAVE_DURATION, &counts.save_times, SAVES);
    exposition.add(&rows::DISK_SAVE_RUNNING, &[], counts.save_running().as_secs_f64());
    exposition.add(&rows::DISK_QUEUE, &[], counts.queue());
    exposition.add(&rows::DISK_FAILING, &[], u64::from(counts.is_failing()));
}

/// Bounds in doublings of a nanosecond: 131 µs to 17 s.
const SAVES: RangeInclusive<u32> = 17..=34;

fn usage(exposition: &mut Exposition, usage: &Usage) {
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
        exposition.add(row, &[], value);
    }
}
