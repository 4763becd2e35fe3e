//! Runs: consecutive units of the pool, allocated and released in constant time.
//!
//! Free runs are in bins by length. The length of a free run is recorded at its first and last unit, so
//! that a released run finds free neighbours on both sides and joins them. All of this is in
//! arrays outside the pool, initially zero, so that unused pages cost no memory.

use super::bins::{Bins, NONE, bin_for, bin_of};

/// Consecutive units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) units: u32,
}

/// All units of a pool.
#[derive(Debug)]
pub(super) struct Runs {
    free: u32,
    bins: Bins,
    /// At the first and the last unit of a free run its length; at those of an allocated one 0. The
    /// units between have no meaning.
    length: Vec<u32>,
    /// At the first unit of a free run, its neighbours in the bin.
    next: Vec<u32>,
    previous: Vec<u32>,
}

impl Runs {
    /// The largest number of units.
    pub(super) const MAX_UNITS: u32 = NONE - 1;

    pub(super) fn new(units: u32) -> Runs {
        let table = || vec![0; units as usize];
        let mut runs =
            Runs { free: 0, bins: Bins::new(), length: table(), next: table(), previous: table() };
        if units > 0 {
            runs.release(Run { first: 0, units });
        }
        runs
    }

    /// A run of exactly this length.
    pub(super) fn take(&mut self, units: u32) -> Option<Run> {
        let first = self.fitting(units)?;
        Some(self.cut(first, units))
    }

    /// A run of this length, or else the longest there is.
    pub(super) fn take_up_to(&mut self, units: u32) -> Option<Run> {
        if let Some(run) = self.take(units) {
            return Some(run);
        }
        let first = self.bins.first(self.bins.last()?);
        Some(self.cut(first, self.length[first as usize].min(units)))
    }

    /// Frees a run and joins it with free neighbours.
    pub(super) fn release(&mut self, run: Run) {
        let Run { mut first, mut units } = run;
        self.free += units;
        if let Some(after) = self.length.get((first + units) as usize).filter(|after| **after > 0) {
            units += after;
            self.unlink(first + run.units);
        }
        if first > 0 && self.length[first as usize - 1] > 0 {
            let before = self.length[first as usize - 1];
            first -= before;
            units += before;
            self.unlink(first);
        }
        self.link(first, units);
    }

    pub(super) fn units(&self) -> u32 {
        self.length.len() as u32
    }

    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// The length of the longest free run. Walks a bin: only for reports.
    pub(super) fn longest(&self) -> u32 {
        let Some(bin) = self.bins.last() else { return 0 };
        self.walk(bin).map(|first| self.length[first as usize]).max().unwrap_or(0)
    }

    pub(super) fn heap(&self) -> usize {
        (self.length.capacity() + self.next.capacity() + self.previous.capacity())
            * size_of::<u32>()
    }

    /// A free run that is long enough: any from the bins where all are, else one of the first few
    /// in the bin where some may be.
    fn fitting(&self, units: u32) -> Option<u32> {
        if let Some(bin) = self.bins.from(bin_for(units)) {
            return Some(self.bins.first(bin));
        }
        self.walk(bin_of(units)).take(MAX_TRIED).find(|first| self.length[*first as usize] >= units)
    }

    /// Allocates the front of a free run.
    fn cut(&mut self, first: u32, units: u32) -> Run {
        let length = self.length[first as usize];
        self.unlink(first);
        self.mark(first, units, 0);
        if length > units {
            self.link(first + units, length - units);
        }
        self.free -= units;
        Run { first, units }
    }

    fn link(&mut self, first: u32, units: u32) {
        let bin = bin_of(units);
        let next = self.bins.first(bin);
        self.mark(first, units, units);
        self.next[first as usize] = next;
        self.previous[first as usize] = NONE;
        if next != NONE {
            self.previous[next as usize] = first;
        }
        self.bins.set_first(bin, first);
    }

    fn unlink(&mut self, first: u32) {
        let (next, previous) = (self.next[first as usize], self.previous[first as usize]);
        if next != NONE {
            self.previous[next as usize] = previous;
        }
        match previous {
            NONE => self.bins.set_first(bin_of(self.length[first as usize]), next),
            _ => self.next[previous as usize] = next,
        }
    }

    /// Records at both ends of a run that it is free with this length, or allocated (0).
    fn mark(&mut self, first: u32, units: u32, length: u32) {
        self.length[first as usize] = length;
        self.length[(first + units - 1) as usize] = length;
    }

    fn walk(&self, bin: usize) -> impl Iterator<Item = u32> {
        let some = |run: u32| (run != NONE).then_some(run);
        std::iter::successors(some(self.bins.first(bin)), move |run| some(self.next[*run as usize]))
    }
}

/// The number of runs tried in a bin where not all are long enough.
const MAX_TRIED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_released_in_any_order_join() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [1, 3, 0, 2]] {
            let mut runs = Runs::new(100);
            let taken: Vec<Run> = [10, 20, 30, 40].map(|units| runs.take(units).unwrap()).into();
            assert_eq!((runs.free(), runs.longest(), runs.take(1)), (0, 0, None));
            order.iter().for_each(|at| runs.release(taken[*at]));
            assert_eq!((runs.free(), runs.longest()), (100, 100));
        }
    }

    #[test]
    fn a_run_of_exactly_the_right_length_is_found() {
        let mut runs = Runs::new(71);
        let run = runs.take(71).unwrap();
        assert_eq!(run, Run { first: 0, units: 71 });
        runs.release(run);
        assert_eq!(runs.take(72), None);
    }

    #[test]
    fn the_longest_is_taken_if_none_is_long_enough() {
        let mut runs = Runs::new(64);
        let taken: Vec<Run> = [1, 9, 1, 20, 33].map(|units| runs.take(units).unwrap()).into();
        runs.release(taken[1]);
        runs.release(taken[3]);
        assert_eq!(runs.take_up_to(29).unwrap().units, 20);
        assert_eq!(runs.take_up_to(8).unwrap().units, 8);
        assert_eq!(runs.free(), 1);
    }
}
