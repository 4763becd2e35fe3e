//! What a net device's driver counts, of which what is known.

use super::driver::{Driver, DriverSocket};
use crate::statistics::statistic;

/// A socket to ask drivers for what they count, again and again.
#[derive(Debug)]
pub(crate) struct Asked(DriverSocket);

/// The names of a driver's statistics. They change as flow control is switched on and off.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// How many statistics there are.
    count: usize,
    /// Those that are known, by their place.
    known: Vec<(usize, String)>,
}

impl Asked {
    pub(crate) fn open() -> Option<Asked> {
        DriverSocket::open().map(Asked)
    }

    /// The names of a net device's statistics, if it has any.
    pub(crate) fn names(&self, netdev: &str) -> Option<Names> {
        names(&self.0.driver(netdev)?)
    }

    /// The values for these names; nothing, if there are other names by now.
    pub(crate) fn values(&self, netdev: &str, names: &Names) -> Option<Vec<(String, u64)>> {
        values(&self.0.driver(netdev)?, names)
    }
}

/// Names and values together.
pub(super) fn all(driver: &Driver<'_>) -> Option<Vec<(String, u64)>> {
    values(driver, &names(driver)?)
}

fn names(driver: &Driver<'_>) -> Option<Names> {
    let names = driver.statistic_names()?;
    let count = names.len();
    let known = names.into_iter().enumerate().filter_map(|(at, name)| Some((at, name?)));
    let known = known.filter(|(_, name)| is_known(name)).take(MAX_KNOWN).collect();
    Some(Names { count, known })
}

fn values(driver: &Driver<'_>, names: &Names) -> Option<Vec<(String, u64)>> {
    let values = driver.statistic_values(names.count)?;
    let value = |(at, name): &(usize, String)| Some((name.clone(), *values.get(*at)?));
    Some(names.known.iter().filter_map(value).collect())
}

/// Most names are of one of hundreds of queues: those are told from the port's by their beginning, for there are
/// thousands to look up.
fn is_known(name: &str) -> bool {
    let of_queue = ["rx", "tx", "ch"].iter().any(|kind| {
        let rest = name.strip_prefix(kind).unwrap_or_default();
        rest.starts_with(|letter: char| letter.is_ascii_digit()) || rest.starts_with("_queue_")
    });
    !of_queue && !name.starts_with('[') && statistic(name).is_some()
}

/// More than a port has, with all its priorities.
const MAX_KNOWN: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_port_are_kept_and_those_of_queues_are_not() {
        for name in
            ["rx_prio3_pause", "rx_discards_phy", "rx_out_of_buffer", "rx_pfc_ena_frames_pri7"]
        {
            assert!(is_known(name), "{name}");
        }
        for name in [
            "rx_packets",
            "rx12_buff_alloc_err",
            "tx_queue_3_drops",
            "ch0_events",
            "[3]: rx_discards",
        ] {
            assert!(!is_known(name), "{name}");
        }
    }
}
