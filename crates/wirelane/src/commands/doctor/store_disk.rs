//! Queries a store on this machine for the doctor.

use std::time::{SystemTime, UNIX_EPOCH};

use doctor::{Check, StoreDisk};
use node::Tree;

use crate::arguments::peer::Peer;
use crate::output::Failure;
use crate::watch::store_metrics::{self, Sample};

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
    let unix_now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    match store_metrics::fetch(&peer) {
        Ok(text) => Ok(parse(&text, &peer.to_string(), unix_now)),
        Err(why) if named.is_some() => Err(Failure::failed(why)),
        Err(_) => Ok(None),
    }
}

fn parse(text: &str, address: &str, unix_now: f64) -> Option<StoreDisk> {
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
            "disk_last_save_timestamp_seconds" if value > 0.0 => {
                disk.last_save_age = Some((unix_now - value).max(0.0));
            }
            "disk_save_duration_seconds_bucket" => {
                let bound = sample.label("le").and_then(|bound| bound.parse::<f64>().ok());
                buckets.extend(bound.map(|bound| (bound, value)));
            }
            "clock_step_seconds" => disk.clock_step_seconds = value,
            "suspended_seconds_total" => disk.suspended_seconds = value,
            _ => {}
        }
    }
    let quantile = |part: f64| {
        let all = buckets.last().map_or(0.0, |(_, count)| *count);
        buckets.iter().find(|(_, count)| all > 0.0 && *count >= all * part).map(|(bound, _)| *bound)
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
        let text = "my_store_keys 1\nmy_disk_info{path=\"/srv/a, b\",node=\"1-2\"} 1\nmy_disk_failing 0\n\
                    my_disk_queue 3\nmy_disk_saves_total 100\nmy_disk_last_save_timestamp_seconds 990\n\
                    my_disk_save_duration_seconds_bucket{le=\"0.001\"} 50\n\
                    my_disk_save_duration_seconds_bucket{le=\"0.01\"} 98\n\
                    my_disk_save_duration_seconds_bucket{le=\"0.1\"} 100\n\
                    my_disk_save_duration_seconds_bucket{le=\"+Inf\"} 100\nmy_clock_step_seconds -3600\n";
        let disk = parse(text, "here", 1000.0).expect("a disk");
        assert_eq!((&disk.path[..], disk.queue, disk.saves), ("/srv/a, b", 3, 100));
        assert_eq!((disk.save_p50, disk.save_p99), (Some(0.001), Some(0.1)));
        assert_eq!((disk.last_save_age, disk.clock_step_seconds), (Some(10.0), -3600.0));
        assert_eq!(parse("my_store_keys 1\nmy_pool_bytes 5\n", "here", 0.0), None, "no disk");
        assert_eq!(parse("node_load1 1\n", "here", 0.0), None, "no store");
    }
}
