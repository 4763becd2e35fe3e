//! Programs that do the same, measured alternately.

use serde_json::{Value, json};

use super::super::spread;
use crate::Failure;

pub(super) struct Comparison<'a> {
    /// The operation; it follows the measure in the row's name.
    pub(super) name: String,
    /// The measures of one run: a row each.
    pub(super) measures: &'static [&'static str],
    pub(super) unit: &'static str,
    pub(super) better: Better,
    pub(super) candidates: Vec<Candidate<'a>>,
    /// The peers to compare ours with.
    pub(super) peers: Vec<Peer>,
    /// The maximum for ours, in the unit, where it is not compared with a peer.
    pub(super) limit: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
}

/// A program, and how to run it once: a result for each measure.
pub(super) struct Candidate<'a> {
    name: String,
    run: Box<dyn Fn() -> Result<Vec<f64>, Failure> + 'a>,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(
        name: impl Into<String>,
        run: impl Fn() -> Result<Vec<f64>, Failure> + 'a,
    ) -> Self {
        Candidate { name: name.into(), run: Box::new(run) }
    }
}

/// A peer, measured by one or more programs: the best result of each round counts.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) programs: Vec<String>,
    /// The target ratio for the first measure.
    pub(super) aim: Option<f64>,
}

impl Comparison<'_> {
    /// Runs all candidates in rounds, with a different one first in each round.
    pub(super) fn run(&self, rounds: u32) -> Result<Vec<Value>, Failure> {
        let candidates = self.candidates.len();
        let mut measurements = vec![vec![Vec::new(); candidates]; self.measures.len()];
        for round in 0..rounds as usize {
            for offset in 0..candidates {
                let index = (round + offset) % candidates;
                let candidate = &self.candidates[index];
                eprintln!("{}: round {} of {rounds}: {}", self.name, round + 1, candidate.name);
                let run =
                    (candidate.run)().map_err(|error| format!("{}: {error}", candidate.name))?;
                for (measure, measurement) in measurements.iter_mut().zip(run) {
                    measure[index].push(measurement);
                }
            }
        }
        Ok(measurements.iter().enumerate().map(|(measure, rows)| self.row(measure, rows)).collect())
    }

    fn row(&self, measure: usize, measurements: &[Vec<f64>]) -> Value {
        let programs = self.candidates.iter().zip(measurements).map(|(candidate, measurements)| {
            let mut program = spread(measurements);
            program["program"] = candidate.name.clone().into();
            program
        });
        let ours = self.candidates.iter().position(|candidate| candidate.name == OURS);
        let ours = ours.map(|ours| &measurements[ours]);
        let ratios = self.peers.iter().filter_map(|peer| {
            let mut ratio = spread(&self.ratios(ours?, peer, measurements));
            ratio["beside"] = peer.name.into();
            if let Some(aim) = peer.aim.filter(|_| measure == 0) {
                ratio["aim"] = aim.into();
                ratio["met"] = ratio["median"].as_f64().is_some_and(|median| median >= aim).into();
            }
            Some(ratio)
        });
        let mut row = json!({
            "name": format!("{} {}", self.measures[measure], self.name), "unit": self.unit,
            "programs": programs.collect::<Vec<_>>(), "ratios": ratios.collect::<Vec<_>>(),
        });
        if let (Some(limit), Some(ours)) = (self.limit, ours) {
            row["limit"] = limit.into();
            row["met"] = ours.iter().all(|measurement| *measurement <= limit).into();
        }
        row
    }

    /// The ratio of each round.
    fn ratios(&self, ours: &[f64], peer: &Peer, measurements: &[Vec<f64>]) -> Vec<f64> {
        let theirs = self.candidates.iter().zip(measurements);
        let theirs: Vec<&Vec<f64>> = theirs
            .filter_map(|(candidate, measurements)| {
                peer.programs.contains(&candidate.name).then_some(measurements)
            })
            .collect();
        let ratio = |(round, our): (usize, &f64)| {
            let theirs = theirs.iter().map(|measurements| measurements[round]);
            match self.better {
                Better::More => our / theirs.fold(f64::MIN, f64::max),
                Better::Less => theirs.fold(f64::MAX, f64::min) / our,
            }
        };
        ours.iter().enumerate().map(ratio).collect()
    }
}

/// The candidate that is compared with the others.
pub(super) const OURS: &str = "wirelane";

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(better: Better, ours: bool) -> Comparison<'static> {
        let mut candidates = vec![
            Candidate::new("a", || Ok(vec![10.0, 1.0])),
            Candidate::new("b", || Ok(vec![20.0, 2.0])),
        ];
        if ours {
            candidates.push(Candidate::new(OURS, || Ok(vec![100.0, 4.0])));
        }
        let programs = vec!["a".to_owned(), "b".to_owned()];
        let peers = vec![Peer { name: "both", programs, aim: Some(4.0) }];
        let measures = &["GET", "PUT"];
        let name = "x".to_owned();
        Comparison { name, measures, unit: "1/s", better, candidates, peers, limit: None }
    }

    #[test]
    fn the_best_program_of_a_peer_counts() {
        let rows = comparison(Better::More, true).run(3).unwrap();
        assert_eq!(rows[0]["ratios"][0]["median"], 5.0);
        assert_eq!(rows[0]["ratios"][0]["met"], true);
        assert_eq!(rows[1]["name"], "PUT x");
        assert_eq!(rows[1]["ratios"][0]["median"], 2.0);
        assert!(rows[1]["ratios"][0].get("aim").is_none());
    }

    #[test]
    fn less_memory_is_a_higher_ratio() {
        let rows = comparison(Better::Less, true).run(1).unwrap();
        assert_eq!(rows[0]["ratios"][0]["median"], 0.1);
        assert_eq!(rows[0]["ratios"][0]["met"], false);
    }

    #[test]
    fn a_limit_applies_to_every_round() {
        let limited = |limit| Comparison { limit: Some(limit), ..comparison(Better::Less, true) };
        assert_eq!(limited(100.0).run(1).unwrap()[0]["met"], true);
        assert_eq!(limited(99.0).run(1).unwrap()[0]["met"], false);
    }

    #[test]
    fn without_ours_there_are_no_ratios() {
        let rows = comparison(Better::More, false).run(2).unwrap();
        assert_eq!(rows[0]["programs"][1]["median"], 20.0);
        assert_eq!(rows[0]["ratios"].as_array().unwrap().len(), 0);
    }
}
