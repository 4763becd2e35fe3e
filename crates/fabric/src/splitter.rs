//! Cuts an operation's memory into parts that fit a work request each.

use crate::region::Slice;

/// How far an operation has been cut.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The piece that comes next, and how many bytes of it are gone.
    piece: usize,
    within: usize,
    /// Bytes of all parts so far.
    done: usize,
}

/// What a part may be at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) bytes: u32,
    pub(crate) pieces: usize,
}

/// A part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where it begins, from the operation's beginning.
    pub(crate) offset: usize,
    pub(crate) pieces: usize,
    /// Whether none comes after it.
    pub(crate) last: bool,
}

impl Cut {
    /// With so many bytes gone already.
    pub(crate) fn at(slices: &[Slice], offset: usize) -> Self {
        let (mut piece, mut within) = (0, offset);
        while let Some(slice) = slices.get(piece)
            && within >= slice.len()
        {
            (piece, within) = (piece + 1, within - slice.len());
        }
        Cut { piece, within, done: offset }
    }

    /// How many bytes the parts so far have.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// Cuts off the next part and tells its pieces: of which slice, from which offset, how many bytes.
    /// An operation without bytes is one part without pieces.
    #[inline]
    pub(crate) fn next(
        &mut self,
        slices: &[Slice],
        most: Most,
        mut visit: impl FnMut(&Slice, usize, u32),
    ) -> Part {
        let offset = self.done;
        let mut room = most.bytes;
        let mut pieces = 0;
        while let Some(slice) = slices.get(self.piece) {
            let left = slice.len() - self.within;
            // A piece of no bytes would be one of 2 GiB to some devices.
            if left == 0 {
                (self.piece, self.within) = (self.piece + 1, 0);
                continue;
            }
            if room == 0 || pieces == most.pieces {
                return Part { offset, pieces, last: false };
            }
            let length = u32::try_from(left).unwrap_or(u32::MAX).min(room);
            visit(slice, self.within, length);
            self.within += length as usize;
            self.done += length as usize;
            room -= length;
            pieces += 1;
        }
        Part { offset, pieces, last: true }
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

    /// Every part's offset, and its pieces by place in the region and length.
    fn parts(slices: &[Slice], bytes: u32, pieces: usize) -> Vec<(usize, Vec<(usize, u32)>)> {
        let mut cut = Cut::default();
        let mut parts = Vec::new();
        loop {
            let mut seen = Vec::new();
            let part = cut.next(slices, Most { bytes, pieces }, |slice, from, length| {
                seen.push((slice.offset() + from, length));
            });
            assert_eq!(part.pieces, seen.len());
            parts.push((part.offset, seen));
            if part.last {
                return parts;
            }
        }
    }

    #[test]
    fn what_fits_is_one_part() {
        assert_eq!(parts(&slices(&[0..10, 50..60]), 20, 2), [(0, vec![(0, 10), (50, 10)])]);
    }

    #[test]
    fn long_pieces_are_cut_and_short_ones_joined() {
        assert_eq!(
            parts(&slices(&[0..10, 50..60]), 8, 4),
            [(0, vec![(0, 8)]), (8, vec![(8, 2), (50, 6)]), (16, vec![(56, 4)])]
        );
    }

    #[test]
    fn too_many_pieces_are_more_parts() {
        assert_eq!(
            parts(&slices(&[0..1, 2..3, 4..5]), 100, 2),
            [(0, vec![(0, 1), (2, 1)]), (2, vec![(4, 1)])]
        );
    }

    #[test]
    fn a_cut_goes_on_from_any_place() {
        let slices = slices(&[0..10, 20..20, 50..60]);
        for offset in 0..21 {
            let mut seen = Vec::new();
            let mut cut = Cut::at(&slices, offset);
            let part = cut.next(&slices, Most { bytes: 100, pieces: 9 }, |slice, from, length| {
                seen.extend((slice.offset() + from..).take(length as usize));
            });
            assert_eq!((part.offset, part.last), (offset, true));
            assert_eq!(seen, (0..10).chain(50..60).skip(offset).collect::<Vec<_>>());
        }
    }

    #[test]
    fn nothing_is_a_part_and_empty_pieces_are_none() {
        assert_eq!(parts(&[], 8, 1), [(0, vec![])]);
        assert_eq!(parts(&slices(&[7..7, 9..9]), 8, 1), [(0, vec![])]);
        assert_eq!(parts(&slices(&[7..7, 0..8, 9..9]), 8, 1), [(0, vec![(0, 8)])]);
    }
}
