//! Statistics of a net device's driver that have a row in the table.

use super::driver::{Driver, DriverSocket};
use crate::statistics::statistic;

/// A socket to read statistics of drivers repeatedly.
#[derive(Debug)]
pub(crate) struct EthtoolSocket(DriverSocket);

/// The names of a driver's statistics. They change when flow control is switched on and off.
#[derive(Debug, Default)]
pub(crate) struct StatisticNames {
    /// The number of all statistics.
    count: usize,
    /// The known ones, with their index.
    known: Vec<(usize, String)>,
}

impl EthtoolSocket {
    pub(crate) fn open() -> Option<EthtoolSocket> {
        DriverSocket::open().map(EthtoolSocket)
    }

    /// The names of a net device's statistics, if it has any.
    pub(crate) fn names(&self, netdev: &str) -> Option<StatisticNames> {
        names(&self.0.driver(netdev)?)
    }

    /// The values for these names; `None` if their number changed.
    pub(crate) fn values(
        &self,
        netdev: &str,
        names: &StatisticNames,
    ) -> Option<Vec<(String, u64)>> {
        values(&self.0.driver(netdev)?, names)
    }
}

/// StatisticNames and values together.
pub(super) fn all(driver: &Driver<'_>) -> Option<Vec<(String, u64)>> {
    values(driver, &names(driver)?)
}

fn names(driver: &Driver<'_>) -> Option<StatisticNames> {
    let names = driver.statistic_names()?;
    let count = names.len();
    let known = names.into_iter().enumerate().filter_map(|(at, name)| Some((at, name?)));
    let known = known.filter(|(_, name)| is_known(name)).take(MAX_KNOWN).collect();
    Some(StatisticNames { count, known })
}

fn values(driver: &Driver<'_>, names: &StatisticNames) -> Option<Vec<(String, u64)>> {
    let values = driver.statistic_values(names.count)?;
    let value = |(at, name): &(usize, String)| Some((name.clone(), *values.get(*at)?));
    Some(names.known.iter().filter_map(value).collect())
}

/// Most names belong to one of hundreds of queues: they are recognized by their prefix, which is faster than thousands
/// of lookups.
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
    fn statistics_of_the_port_are_known_and_those_of_queues_are_not() {
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
