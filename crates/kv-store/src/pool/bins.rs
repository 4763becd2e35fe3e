//! Bins: free runs grouped by length, so that one that is long enough is found in constant time.

/// The first run of each bin, and a bitmap of non-empty bins. There are eight bins per doubling, and one
/// for each length below eight.
#[derive(Debug)]
pub(super) struct Bins {
    first: [u32; COUNT],
    held: [u64; COUNT / 64 + 1],
}

impl Bins {
    pub(super) fn new() -> Bins {
        Bins { first: [NONE; COUNT], held: [0; COUNT / 64 + 1] }
    }

    /// The first run in a bin, or `NONE`.
    pub(super) fn first(&self, bin: usize) -> u32 {
        self.first[bin]
    }

    pub(super) fn set_first(&mut self, bin: usize, run: u32) {
        self.first[bin] = run;
        let bit = 1 << (bin % 64);
        match run {
            NONE => self.held[bin / 64] &= !bit,
            _ => self.held[bin / 64] |= bit,
        }
    }

    /// The first non-empty bin from this one on.
    pub(super) fn from(&self, bin: usize) -> Option<usize> {
        let mut word = bin / 64;
        let mut held = self.held[word] & (!0 << (bin % 64));
        while held == 0 {
            word += 1;
            held = *self.held.get(word)?;
        }
        Some(word * 64 + held.trailing_zeros() as usize)
    }

    /// The non-empty bin of the longest runs.
    pub(super) fn last(&self) -> Option<usize> {
        let word = self.held.iter().rposition(|held| *held != 0)?;
        Some(word * 64 + self.held[word].ilog2() as usize)
    }
}

/// The bin of a run of this length.
pub(super) fn bin_of(units: u32) -> usize {
    if units < 8 {
        return units as usize;
    }
    let doubling = units.ilog2();
    (doubling as usize - 2) * 8 + (units >> (doubling - 3) & 7) as usize
}

/// The first bin where every run is at least this long.
pub(super) fn bin_for(units: u32) -> usize {
    bin_of(units) + usize::from(units >= 8 && units & ((1 << (units.ilog2() - 3)) - 1) != 0)
}

/// No run.
pub(super) const NONE: u32 = u32::MAX;

/// `bin_of` ends below this, and `bin_for` at it.
const COUNT: usize = 241;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_sorted_into_bins() {
        for units in (1..5000).chain([1 << 20, (1 << 20) + 1, u32::MAX - 1]) {
            assert!(bin_of(units) <= bin_of(units + 1), "{units}");
            let first = bin_for(units);
            assert!(first == bin_of(units) || first == bin_of(units) + 1);
            assert!(bin_of(units - 1) < first, "shorter runs are in lower bins: {units}");
            assert!(first < COUNT);
        }
    }

    #[test]
    fn the_next_non_empty_bin_is_found() {
        let mut bins = Bins::new();
        assert_eq!((bins.from(0), bins.last()), (None, None));
        bins.set_first(70, 5);
        bins.set_first(200, 6);
        assert_eq!((bins.from(3), bins.from(70), bins.from(71)), (Some(70), Some(70), Some(200)));
        assert_eq!((bins.from(201), bins.last()), (None, Some(200)));
        bins.set_first(200, NONE);
        assert_eq!(bins.last(), Some(70));
    }
}
