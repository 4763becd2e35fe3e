//! Programs that do the same, measured in turns.

use serde_json::{Value, json};

use super::super::spread;
use crate::Failed;

pub(super) struct Contest<'a> {
    /// What is done, after the name of what is measured.
    pub(super) name: String,
    /// What one run measures: a row each.
    pub(super) measures: &'static [&'static str],
    pub(super) unit: &'static str,
    pub(super) better: Better,
    pub(super) entrants: Vec<Entrant<'a>>,
    /// Whom to compare ours with.
    pub(super) beside: Vec<Beside>,
    /// The most that ours may show, where that is said in the unit and not beside somebody.
    pub(super) limit: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
}

/// A program, and how to run it once: a result for each measure.
pub(super) struct Entrant<'a> {
    name: String,
    run: Box<dyn Fn() -> Result<Vec<f64>, Failed> + 'a>,
}

impl<'a> Entrant<'a> {
    pub(super) fn new(
        name: impl Into<String>,
        run: impl Fn() -> Result<Vec<f64>, Failed> + 'a,
    ) -> Self {
        Entrant { name: name.into(), run: Box::new(run) }
    }
}

/// A peer, by one or more programs: the best result of each round is the peer's.
pub(super) struct Beside {
    pub(super) name: &'static str,
    pub(super) programs: Vec<String>,
    /// The ratio to reach in the first measure.
    pub(super) aim: Option<f64>,
}

impl Contest<'_> {
    /// Runs all in turns, a different one first in each round.
    pub(super) fn run(&self, rounds: u32) -> Result<Vec<Value>, Failed> {
        let entrants = self.entrants.len();
        let mut measurements = vec![vec![Vec::new(); entrants]; self.measures.len()];
        for round in 0..rounds as usize {
            for turn in 0..entrants {
                let turn = (round + turn) % entrants;
                let entrant = &self.entrants[turn];
                eprintln!("{}: round {} of {rounds}: {}", self.name, round + 1, entrant.name);
                let run = (entrant.run)().map_err(|error| format!("{}: {error}", entrant.name))?;
                for (measure, measurement) in measurements.iter_mut().zip(run) {
                    measure[turn].push(measurement);
                }
            }
        }
        Ok(measurements.iter().enumerate().map(|(measure, rows)| self.row(measure, rows)).collect())
    }

    fn row(&self, measure: usize, measurements: &[Vec<f64>]) -> Value {
        let programs = self.entrants.iter().zip(measurements).map(|(entrant, measurements)| {
            let mut program = spread(measurements);
            program["program"] = entrant.name.clone().into();
            program
        });
        let ours = self.entrants.iter().position(|entrant| entrant.name == OURS);
        let ours = ours.map(|ours| &measurements[ours]);
        let ratios = self.beside.iter().filter_map(|beside| {
            let mut ratio = spread(&self.ratios(ours?, beside, measurements));
            ratio["beside"] = beside.name.into();
            if let Some(aim) = beside.aim.filter(|_| measure == 0) {
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

    /// Round by round.
    fn ratios(&self, ours: &[f64], beside: &Beside, measurements: &[Vec<f64>]) -> Vec<f64> {
        let theirs = self.entrants.iter().zip(measurements);
        let theirs: Vec<&Vec<f64>> = theirs
            .filter_map(|(entrant, measurements)| {
                beside.programs.contains(&entrant.name).then_some(measurements)
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

/// The entrant that is compared with the others.
pub(super) const OURS: &str = "wirelane";

#[cfg(test)]
mod tests {
    use super::*;

    fn contest(better: Better, ours: bool) -> Contest<'static> {
        let mut entrants = vec![
            Entrant::new("a", || Ok(vec![10.0, 1.0])),
            Entrant::new("b", || Ok(vec![20.0, 2.0])),
        ];
        if ours {
            entrants.push(Entrant::new(OURS, || Ok(vec![100.0, 4.0])));
        }
        let programs = vec!["a".to_owned(), "b".to_owned()];
        let beside = vec![Beside { name: "both", programs, aim: Some(4.0) }];
        let measures = &["GET", "PUT"];
        let name = "x".to_owned();
        Contest { name, measures, unit: "1/s", better, entrants, beside, limit: None }
    }

    #[test]
    fn the_better_program_of_a_peer_counts() {
        let rows = contest(Better::More, true).run(3).unwrap();
        assert_eq!(rows[0]["ratios"][0]["median"], 5.0);
        assert_eq!(rows[0]["ratios"][0]["met"], true);
        assert_eq!(rows[1]["name"], "PUT x");
        assert_eq!(rows[1]["ratios"][0]["median"], 2.0);
        assert!(rows[1]["ratios"][0].get("aim").is_none());
    }

    #[test]
    fn less_memory_is_a_higher_ratio() {
        let rows = contest(Better::Less, true).run(1).unwrap();
        assert_eq!(rows[0]["ratios"][0]["median"], 0.1);
        assert_eq!(rows[0]["ratios"][0]["met"], false);
    }

    #[test]
    fn a_limit_is_for_every_round() {
        let limited = |limit| Contest { limit: Some(limit), ..contest(Better::Less, true) };
        assert_eq!(limited(100.0).run(1).unwrap()[0]["met"], true);
        assert_eq!(limited(99.0).run(1).unwrap()[0]["met"], false);
    }

    #[test]
    fn peers_alone_have_measurements_and_no_ratios() {
        let rows = contest(Better::More, false).run(2).unwrap();
        assert_eq!(rows[0]["programs"][1]["median"], 20.0);
        assert_eq!(rows[0]["ratios"].as_array().unwrap().len(), 0);
    }
}
