//! Measurements of every pair of several hosts: in which rounds, and which pair or host is slow.

use report::{FailedPair, Matrix, SlowHost, SlowPair};

/// The result of a pair in one direction; hosts by their index.
#[derive(Debug, Clone, PartialEq)]
pub struct PairResult {
    /// The host that measured.
    pub from: usize,
    /// Its peer.
    pub to: usize,
    /// Bandwidth in Gb/s and latency in µs, or the error.
    pub measurements: Result<(f64, Option<f64>), String>,
}

/// Rounds in which each pair of hosts is measured once, and no host twice in a round (round-robin tournament): a host is
/// never in two measurements at the same time.
pub fn rounds(hosts: usize) -> Vec<Vec<(usize, usize)>> {
    let places = hosts.next_multiple_of(2);
    let rounds = places.saturating_sub(1);
    let at = |round: usize, place: usize| match place {
        0 => 0,
        place => 1 + (place - 1 + round) % rounds,
    };
    let pairs = |round: usize| {
        let pairs =
            (0..places / 2).map(move |place| (at(round, place), at(round, places - 1 - place)));
        pairs.filter(|(one, other)| *one < hosts && *other < hosts).collect()
    };
    (0..rounds).map(pairs).collect()
}

/// The matrix of results, with slow pairs and hosts: those far below the median.
pub fn matrix(hosts: &[String], results: &[PairResult]) -> Matrix {
    let count = hosts.len();
    let mut matrix = Matrix {
        hosts: hosts.to_vec(),
        gbps: vec![vec![None; count]; count],
        latency_us: vec![vec![None; count]; count],
        ..Matrix::default()
    };
    for PairResult { from, to, measurements } in results {
        match measurements {
            Ok((gbps, latency)) => {
                matrix.gbps[*from][*to] = Some(*gbps);
                matrix.latency_us[*from][*to] = *latency;
            }
            Err(why) => matrix.failed.push(FailedPair {
                from: hosts[*from].clone(),
                to: hosts[*to].clone(),
                why: why.clone(),
            }),
        }
    }
    matrix.median_gbps = median(matrix.gbps.iter().flatten().flatten().copied().collect());
    if let Some(median) = matrix.median_gbps.filter(|median| *median > 0.0) {
        find_slow(&mut matrix, median);
    }
    matrix
}

/// Finds hosts all of whose pairs are slow, then slow pairs of the other hosts.
fn find_slow(matrix: &mut Matrix, median_gbps: f64) {
    let count = matrix.hosts.len();
    let slower = |one: usize, other: usize| {
        let directions = [matrix.gbps[one][other], matrix.gbps[other][one]];
        directions.into_iter().flatten().min_by(f64::total_cmp)
    };
    let is_slow = |gbps: f64| gbps < SLOW * median_gbps;
    let pairs_of = |host: usize| {
        (0..count).filter(move |other| *other != host).filter_map(move |other| slower(host, other))
    };
    let bad: Vec<usize> = (0..count)
        .filter(|host| pairs_of(*host).count() > 1 && pairs_of(*host).all(is_slow))
        .collect();
    let slow_hosts = bad.iter().filter_map(|host| {
        let gbps = median(pairs_of(*host).collect())?;
        let ratio_to_median = gbps / median_gbps;
        Some(SlowHost { host: matrix.hosts[*host].clone(), gbps, ratio_to_median })
    });
    let slow_hosts: Vec<SlowHost> = slow_hosts.collect();
    let mut slow_pairs = Vec::new();
    for one in 0..count {
        for other in one + 1..count {
            let Some(gbps) = slower(one, other).filter(|gbps| is_slow(*gbps)) else { continue };
            if bad.contains(&one) || bad.contains(&other) {
                continue;
            }
            let (from, to) = match matrix.gbps[one][other] == Some(gbps) {
                true => (one, other),
                false => (other, one),
            };
            slow_pairs.push(SlowPair {
                from: matrix.hosts[from].clone(),
                to: matrix.hosts[to].clone(),
                gbps,
                ratio_to_median: gbps / median_gbps,
            });
        }
    }
    slow_pairs.sort_by(|one, other| one.gbps.total_cmp(&other.gbps));
    (matrix.slow_hosts, matrix.slow_pairs) = (slow_hosts, slow_pairs);
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 0 => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

/// Pairs below this part of the median are slow: pairs of one network differ by less.
const SLOW: f64 = 0.6;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_pair_is_measured_once_and_no_host_twice_in_a_round() {
        for hosts in 2..9 {
            let rounds = rounds(hosts);
            let mut met = BTreeSet::new();
            for round in &rounds {
                let mut busy = BTreeSet::new();
                for (one, other) in round {
                    assert!(busy.insert(*one) && busy.insert(*other), "{hosts}: {round:?}");
                    assert!(met.insert((*one.min(other), *one.max(other))), "{hosts}: {round:?}");
                }
            }
            assert_eq!(met.len(), hosts * (hosts - 1) / 2, "{hosts}");
        }
        assert!(rounds(0).is_empty() && rounds(1).iter().all(Vec::is_empty));
    }

    /// Four hosts at 10 Gb/s, except where `slow` returns a rate.
    fn mesh(slow: impl Fn(usize, usize) -> Option<f64>) -> Matrix {
        let hosts = ["a", "b", "c", "d"].map(str::to_owned);
        let mut results = Vec::new();
        for from in 0..4 {
            for to in (0..4).filter(|to| *to != from) {
                let measurements = Ok((slow(from, to).unwrap_or(10.0), Some(5.0)));
                results.push(PairResult { from, to, measurements });
            }
        }
        matrix(&hosts, &results)
    }

    #[test]
    fn a_slow_link_is_named_and_its_hosts_are_not() {
        let matrix = mesh(|from, to| ((from, to) == (2, 1)).then_some(1.0));
        assert_eq!(matrix.median_gbps, Some(10.0));
        let slow = &matrix.slow_pairs[0];
        assert_eq!((slow.from.as_str(), slow.to.as_str(), slow.gbps), ("c", "b", 1.0));
        assert!(matrix.slow_pairs.len() == 1 && matrix.slow_hosts.is_empty(), "{matrix:?}");
    }

    #[test]
    fn a_slow_host_is_named_and_its_links_are_not() {
        let matrix = mesh(|from, to| (from == 3 || to == 3).then_some(2.0));
        assert_eq!(matrix.slow_hosts[0].host, "d");
        assert!(matrix.slow_pairs.is_empty(), "{matrix:?}");
        assert!(mesh(|_, _| None).slow_hosts.is_empty());
    }

    #[test]
    fn failed_pairs_have_their_error() {
        let hosts = ["a", "b"].map(str::to_owned);
        let failed = PairResult { from: 0, to: 1, measurements: Err("refused".to_owned()) };
        let matrix = matrix(&hosts, &[failed]);
        assert_eq!((matrix.median_gbps, matrix.failed[0].why.as_str()), (None, "refused"));
    }
}
