//! Splits an operation's memory into ranges that each fit one work request.

use crate::region::Slice;

/// The progress of splitting an operation.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Splitter {
    /// The next slice, and the number of its bytes in earlier ranges.
    slice_index: usize,
    within: usize,
    /// Bytes of all ranges so far.
    done: usize,
}

/// The maximum size of a work request: bytes, and scatter/gather entries (SGEs; `iovec`s in libfabric).
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkRequestLimits {
    pub(crate) bytes: u32,
    pub(crate) sges: usize,
}

/// The bytes of one work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkRequestRange {
    /// Its offset in the operation.
    pub(crate) offset: usize,
    pub(crate) sges: usize,
    /// Whether it is the operation's last.
    pub(crate) last: bool,
}

impl Splitter {
    /// Starts at byte `offset` of the operation.
    pub(crate) fn at(slices: &[Slice], offset: usize) -> Self {
        let (mut slice_index, mut within) = (0, offset);
        while let Some(slice) = slices.get(slice_index)
            && within >= slice.len()
        {
            (slice_index, within) = (slice_index + 1, within - slice.len());
        }
        Splitter { slice_index, within, done: offset }
    }

    /// The number of bytes of the ranges so far.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// Returns the next range, and calls `visit` for each of its SGEs: slice, offset and number of bytes.
    /// An operation without bytes is one range without SGEs.
    #[inline]
    pub(crate) fn next(
        &mut self,
        slices: &[Slice],
        limits: WorkRequestLimits,
        mut visit: impl FnMut(&Slice, usize, u32),
    ) -> WorkRequestRange {
        let offset = self.done;
        let mut left_in_request = limits.bytes;
        let mut sges = 0;
        while let Some(slice) = slices.get(self.slice_index) {
            let left = slice.len() - self.within;
            // To some devices an SGE of zero bytes is one of 2 GiB.
            if left == 0 {
                (self.slice_index, self.within) = (self.slice_index + 1, 0);
                continue;
            }
            if left_in_request == 0 || sges == limits.sges {
                return WorkRequestRange { offset, sges, last: false };
            }
            let length = u32::try_from(left).unwrap_or(u32::MAX).min(left_in_request);
            visit(slice, self.within, length);
            self.within += length as usize;
            self.done += length as usize;
            left_in_request -= length;
            sges += 1;
        }
        WorkRequestRange { offset, sges, last: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, Pages};
    use crate::region::{Region, Rights};
    use crate::registration::Registration;

    fn slices(ranges: &[std::ops::Range<usize>]) -> Vec<Slice> {
        let memory = Memory::allocate(4096, Pages::Plain).unwrap();
        let region = Region::new(memory, Rights::ALL, Registration::Software);
        ranges.iter().map(|range| region.slice(range.clone())).collect()
    }

    /// Every range's offset, and its SGEs by offset in the region and length.
    fn split(slices: &[Slice], bytes: u32, sges: usize) -> Vec<(usize, Vec<(usize, u32)>)> {
        let mut splitter = Splitter::default();
        let mut split = Vec::new();
        loop {
            let mut seen = Vec::new();
            let range =
                splitter.next(slices, WorkRequestLimits { bytes, sges }, |slice, from, length| {
                    seen.push((slice.offset() + from, length));
                });
            assert_eq!(range.sges, seen.len());
            split.push((range.offset, seen));
            if range.last {
                return split;
            }
        }
    }

    #[test]
    fn memory_that_fits_is_one_work_request() {
        assert_eq!(split(&slices(&[0..10, 50..60]), 20, 2), [(0, vec![(0, 10), (50, 10)])]);
    }

    #[test]
    fn long_slices_are_split_and_short_ones_joined() {
        assert_eq!(
            split(&slices(&[0..10, 50..60]), 8, 4),
            [(0, vec![(0, 8)]), (8, vec![(8, 2), (50, 6)]), (16, vec![(56, 4)])]
        );
    }

    #[test]
    fn too_many_slices_become_several_work_requests() {
        assert_eq!(
            split(&slices(&[0..1, 2..3, 4..5]), 100, 2),
            [(0, vec![(0, 1), (2, 1)]), (2, vec![(4, 1)])]
        );
    }

    #[test]
    fn splitting_starts_at_any_offset() {
        let slices = slices(&[0..10, 20..20, 50..60]);
        for offset in 0..21 {
            let mut seen = Vec::new();
            let mut splitter = Splitter::at(&slices, offset);
            let range = splitter.next(
                &slices,
                WorkRequestLimits { bytes: 100, sges: 9 },
                |slice, from, length| {
                    seen.extend((slice.offset() + from..).take(length as usize));
                },
            );
            assert_eq!((range.offset, range.last), (offset, true));
            assert_eq!(seen, (0..10).chain(50..60).skip(offset).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_empty_operation_is_one_range_and_empty_slices_are_skipped() {
        assert_eq!(split(&[], 8, 1), [(0, vec![])]);
        assert_eq!(split(&slices(&[7..7, 9..9]), 8, 1), [(0, vec![])]);
        assert_eq!(split(&slices(&[7..7, 0..8, 9..9]), 8, 1), [(0, vec![(0, 8)])]);
    }
}
