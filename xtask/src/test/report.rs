//! The report: one line per stage with its duration, and the number of cases of each lane.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use crate::{Failure, shell};

/// How the passed checks of a stage are counted.
#[derive(Clone, Copy)]
pub(super) enum Count {
    /// From the summary lines of Rust's test runner; `left_out` tests are expected to be filtered out.
    Tests { left_out: usize },
    /// One for each line of its output that starts with `good: `.
    Good,
}

pub(super) struct Report {
    started: Instant,
    /// Only stages whose names contain this.
    only: Option<String>,
    /// The stages that were left out.
    left_out: Vec<String>,
    passed: usize,
    /// Cases of the conformance suite by lane.
    lanes: BTreeMap<&'static str, usize>,
}

/// A stage of the tests.
pub(super) struct Stage<'s> {
    name: &'static str,
    count: Count,
    run: Run<'s>,
}

/// Writes output to the log.
type Run<'s> = Box<dyn FnOnce(&Mutex<File>) -> Result<(), Failure> + Send + 's>;

/// A stage that passed.
struct EndedStage {
    name: &'static str,
    count: usize,
    output: String,
    seconds: f64,
}

impl<'s> Stage<'s> {
    pub(super) fn new(
        name: &'static str,
        count: Count,
        run: impl FnOnce(&Mutex<File>) -> Result<(), Failure> + Send + 's,
    ) -> Self {
        Stage { name, count, run: Box::new(run) }
    }

    fn run(self) -> Result<EndedStage, Failure> {
        let Stage { name, count, run } = self;
        let started = Instant::now();
        let log = log_file(name)?;
        let file = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let ended = run(&Mutex::new(file));
        let output = fs::read_to_string(&log).unwrap_or_default();
        let count = ended
            .and_then(|()| count.read(&output))
            .map_err(|error| format!("{name}: {error}\n(the whole output: {})", log.display()))?;
        Ok(EndedStage { name, count, output, seconds: started.elapsed().as_secs_f64() })
    }
}

/// The lanes of the conformance suite, with the prefix of their test names.
const LANES: [(&str, &str); 11] = [
    ("sim", "test sim_"),
    ("shm", "test shm_"),
    ("tcp", "test tcp_"),
    ("libfabric tcp", "test ofi_tcp"),
    ("libfabric shm", "test ofi_shm"),
    ("link", "test link_"),
    ("libfabric over link", "test link_ofi"),
    ("verbs over link", "test link_verbs"),
    ("verbs RC", "test verbs_rc"),
    ("verbs UD", "test verbs_ud"),
    ("verbs over libfabric", "test ofi_verbs"),
];

impl Report {
    pub(super) fn new(only: Option<String>) -> Report {
        let (left_out, lanes) = (Vec::new(), BTreeMap::new());
        Report { started: Instant::now(), only, left_out, passed: 0, lanes }
    }

    /// Runs a stage.
    pub(super) fn stage(
        &mut self,
        name: &'static str,
        count: Count,
        run: impl FnOnce(&Mutex<File>) -> Result<(), Failure> + Send,
    ) -> Result<(), Failure> {
        self.side_by_side(vec![Stage::new(name, count, run)])
    }

    /// Runs stages at the same time, which wait more than they compute.
    pub(super) fn side_by_side(&mut self, stages: Vec<Stage<'_>>) -> Result<(), Failure> {
        let is_chosen =
            |stage: &Stage<'_>| self.only.as_ref().is_none_or(|only| stage.name.contains(only));
        let (chosen, others): (Vec<_>, Vec<_>) = stages.into_iter().partition(is_chosen);
        self.left_out.extend(others.iter().map(|stage| stage.name.to_owned()));
        let ended: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> =
                chosen.into_iter().map(|stage| scope.spawn(|| stage.run())).collect();
            running.into_iter().map(|running| running.join().expect("no panic")).collect()
        });
        ended.into_iter().try_for_each(|ended| self.add(ended?))
    }

    fn add(&mut self, ended: EndedStage) -> Result<(), Failure> {
        let EndedStage { name, count, output, seconds } = ended;
        self.passed += count;
        for (lane, prefix) in LANES {
            let passed = |line: &&str| line.starts_with(prefix) && line.ends_with("... ok");
            let cases = output.lines().filter(passed).count();
            if cases > 0 {
                *self.lanes.entry(lane).or_default() += cases;
            }
        }
        println!("{name:34} {count:4} passed {seconds:6.1} s");
        Ok(())
    }

    /// Runs a preparation before the stages, and prints its duration.
    pub(super) fn prepare<T>(
        &self,
        name: &str,
        run: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let started = Instant::now();
        let prepared = run().map_err(|error| format!("{name}: {error}"))?;
        println!("{name:46} {:6.1} s", started.elapsed().as_secs_f64());
        Ok(prepared)
    }

    /// Fails if a lane was not tested, unless its stage was left out.
    pub(super) fn end(&self, with_lab: bool, left_out: &str) -> Result<(), Failure> {
        if let Some(only) = &self.only {
            let others = self.left_out.join(", ");
            if self.passed == 0 {
                return Err(format!("no stage has {only:?} in its name; there are: {others}"));
            }
            println!("left out by --only: {others}");
            println!("{} passed, 0 failed", self.passed);
            return Ok(());
        }
        for (lane, _) in LANES.iter().filter(|(lane, _)| with_lab || !lane.starts_with("verbs")) {
            match self.lanes.get(lane) {
                Some(cases) => println!("lane {lane:29} {cases:4} cases"),
                None => return Err(format!("no case ran over the lane {lane}")),
            }
        }
        println!("{left_out}; {:.0} s", self.started.elapsed().as_secs_f64());
        println!("{} passed, 0 failed", self.passed);
        Ok(())
    }
}

impl Count {
    /// Every test of the programs.
    pub(super) const ALL_TESTS: Count = Count::Tests { left_out: 0 };

    fn read(self, output: &str) -> Result<usize, Failure> {
        match self {
            Count::Good => match output.lines().filter(|line| line.starts_with("good: ")).count() {
                0 => Err("nothing was checked".to_owned()),
                count => Ok(count),
            },
            Count::Tests { left_out } => count_tests(output, left_out),
        }
    }
}

/// Sums the runner's summary lines. Tests that did not run are an error, unless they are expected to be left out.
fn count_tests(output: &str, left_out: usize) -> Result<usize, Failure> {
    let (mut passed, mut not_run) = (0, 0);
    for line in output.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        let number = |word: &str| {
            let before = line.split(word).next()?;
            before.split_whitespace().next_back()?.parse::<usize>().ok()
        };
        let read = |word| number(word).ok_or_else(|| format!("cannot read {line}"));
        passed += read(" passed")?;
        not_run += read(" ignored")? + read(" filtered out")?;
    }
    match (passed, not_run) {
        (0, _) => Err("no test ran".to_owned()),
        (_, not_run) if not_run != left_out => {
            Err(format!("{not_run} tests did not run, expected {left_out}"))
        }
        _ => Ok(passed),
    }
}

fn log_file(stage: &str) -> Result<PathBuf, Failure> {
    let folder = shell::target().join("xtask");
    fs::create_dir_all(&folder).map_err(|error| format!("create {}: {error}", folder.display()))?;
    Ok(folder.join(format!("{}.log", stage.replace([' ', ','], "-"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_lines_are_added_up() {
        let output = "noise\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; x\n\
            test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; x\n";
        assert_eq!(count_tests(output, 0), Ok(7));
    }

    #[test]
    fn an_ignored_test_is_an_error() {
        let output = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
        assert!(count_tests(output, 0).is_err());
        assert!(count_tests("", 0).is_err());
    }

    #[test]
    fn the_number_of_left_out_tests_must_match() {
        let output = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out";
        assert_eq!(count_tests(output, 2), Ok(3));
        assert!(count_tests(output, 1).is_err() && count_tests(output, 3).is_err());
    }
}
