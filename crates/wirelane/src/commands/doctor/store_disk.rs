//! Queries a store on this machine for the doctor.

use doctor::{Check, StoreDisk};
use node::Tree;

use crate::arguments::peer::Peer;
use crate::monitoring::store_metrics::{self, Sample};
use crate::output::Failure;

/// The disk of the store at this address, or else at the default one; `None` if the checks do not need it, for another
/// machine, or if there is none. That a named store does not answer is an error.
pub(super) fn query(
    named: Option<&Peer>,
    tree: &Tree,
    only: &[&Check],
) -> Result<Option<StoreDisk>, Failure> {
    let is_wanted = only.is_empty() || only.iter().any(|check| check.name == "store-disk");
    if !tree.is_live() || !is_wanted {
        return Ok(None);
    }
    let peer = named.cloned().map_or_else(store_metrics::default_address, Ok)?;
    let none = || format!("http://{peer}/metrics has no metrics of a store with --data-dir");
    let disk = store_metrics::fetch(&peer)
        .and_then(|text| parse(&text, &peer.to_string()).ok_or_else(none));
    match disk {
        Ok(disk) => Ok(Some(disk)),
        Err(why) if named.is_some() => Err(Failure::failed(why)),
        Err(_) => Ok(None),
    }
}

fn parse(text: &str, address: &str) -> Option<StoreDisk> {
    let mut disk = StoreDisk { address: address.to_owned(), ..StoreDisk::default() };
    let mut buckets = Vec::new();
    for sample in store_metrics::samples(text)? {
        let Sample { name, value, .. } = sample;
        match name {
            "disk_info" => disk.path = sample.label("path")?,
            "disk_failing" => disk.failing = value != 0.0,
            "disk_queue" => disk.queue = value as u64,
            "disk_saves_total" => disk.saves = value as u64,
            "disk_log_bytes" => disk.log_bytes = value as u64,
            "disk_bytes" => disk.bytes = value as u64,
            "disk_damaged_total" => disk.damaged = value as u64,
            "disk_save_running_seconds" => disk.save_running = value,
            "disk_save_duration_seconds_bucket" => {
                let bound = sample.label("le").and_then(|bound| bound.parse::<f64>().ok());
                buckets.extend(bound.map(|bound| (bound, value)));
            }
            "clock_set_seconds_total" => disk.clock_set = value,
            "suspended_seconds_total" => disk.suspended = value,
            _ => {}
        }
    }
    // The bounds of the bucket that has a quantile; the last one has no upper bound.
    let quantile = |part: f64| {
        let all = buckets.last().map_or(0.0, |(_, count)| *count);
        let at = buckets.iter().position(|(_, count)| all > 0.0 && *count >= all * part)?;
        let from = at.checked_sub(1).map_or(0.0, |before| buckets[before].0);
        Some((from, Some(buckets[at].0).filter(|to| to.is_finite()).unwrap_or(from)))
    };
    (disk.save_p50, disk.save_p99) = (quantile(0.5), quantile(0.99));
    // A store without a disk.
    (!disk.path.is_empty()).then_some(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stores_metrics_describe_its_disk() {
        let text = "my_store_keys 1\nmy_disk_info{path=\"/srv/a, b\",store=\"1-2\"} 1\nmy_disk_failing 0\n\
                    my_disk_queue 3\nmy_disk_saves_total 100\nmy_disk_save_running_seconds 11.5\n\
                    my_disk_save_duration_seconds_bucket{le=\"0.001\"} 50\n\
                    my_disk_save_duration_seconds_bucket{le=\"0.01\"} 98\n\
                    my_disk_save_duration_seconds_bucket{le=\"0.1\"} 100\n\
                    my_disk_save_duration_seconds_bucket{le=\"+Inf\"} 100\nmy_clock_set_seconds_total 3600\n";
        let disk = parse(text, "here").expect("a disk");
        assert_eq!((&disk.path[..], disk.queue, disk.saves), ("/srv/a, b", 3, 100));
        assert_eq!((disk.save_p50, disk.save_p99), (Some((0.0, 0.001)), Some((0.01, 0.1))));
        assert_eq!((disk.save_running, disk.clock_set), (11.5, 3600.0));
        assert_eq!(parse("my_store_keys 1\nmy_pool_bytes 5\n", "here"), None, "no disk");
        assert_eq!(parse("node_load1 1\n", "here"), None, "no store");
    }
}
