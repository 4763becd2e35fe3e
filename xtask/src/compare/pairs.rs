//! Alternating runs of ours and theirs, and the resulting row.

use serde_json::{Value, json};

use super::spread;
use crate::Failure;

/// Which result is the better one.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Better {
    More,
    Less,
}

/// A measured operation and its peer.
pub(super) struct Subject<'s> {
    pub(super) name: &'s str,
    pub(super) peer: &'s str,
    pub(super) unit: &'s str,
    pub(super) better: Better,
    /// The target ratio.
    pub(super) aim: f64,
}

impl Subject<'_> {
    /// The row for pairs of results, ours first. A ratio above 1 means that ours is better, for latency too.
    pub(super) fn row(&self, pairs: &[(f64, f64)]) -> Value {
        let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let ratios = pairs.iter().map(|(our, their)| match self.better {
            Better::More => our / their,
            Better::Less => their / our,
        });
        json!({
            "name": self.name, "peer": self.peer, "unit": self.unit, "aim": self.aim,
            "ours": spread(&ours), "theirs": spread(&theirs), "ratio": spread(&ratios.collect::<Vec<_>>()),
        })
    }
}

/// Measures both `count` times; the one that runs first alternates.
pub(super) fn measure_pairs<T>(
    name: &str,
    count: u32,
    mut ours: impl FnMut() -> Result<T, Failure>,
    mut theirs: impl FnMut() -> Result<T, Failure>,
) -> Result<Vec<(T, T)>, Failure> {
    let mut pairs = Vec::new();
    for pair in 0..count {
        eprintln!("{name}: pair {} of {count}", pair + 1);
        pairs.push(if pair % 2 == 0 {
            let our = ours()?;
            (our, theirs()?)
        } else {
            let their = theirs()?;
            (ours()?, their)
        });
    }
    Ok(pairs)
}

/// Prints the rows as text.
pub(super) fn print(rows: &[Value]) {
    println!(
        "{:30} {:34} {:>10} {:>10} {:>6} {:>13} {:>5}",
        "", "compared with", "ours", "theirs", "ratio", "range", "target"
    );
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str, which: &str| row[name][which].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:30} {:34} {:10.2} {:10.2} {:6.2} {:6.2}-{:<6.2} {:5.2}  {}",
            text("name"),
            text("peer"),
            number("ours", "median"),
            number("theirs", "median"),
            number("ratio", "median"),
            number("ratio", "min"),
            number("ratio", "max"),
            row["aim"].as_f64().unwrap_or(f64::NAN),
            text("unit"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_time_is_a_higher_ratio() {
        let subject = Subject { name: "x", peer: "y", unit: "us", better: Better::Less, aim: 1.0 };
        assert_eq!(subject.row(&[(2.0, 3.0), (2.0, 3.0)])["ratio"]["median"], 1.5);
    }

    #[test]
    fn the_first_run_alternates() {
        let order = std::cell::RefCell::new(String::new());
        let run = |name: char| {
            order.borrow_mut().push(name);
            Ok(name)
        };
        let pairs = measure_pairs("x", 2, || run('o'), || run('t')).expect("both succeed");
        assert_eq!(*order.borrow(), "otto");
        assert_eq!(pairs, [('o', 't'), ('o', 't')]);
    }
}
