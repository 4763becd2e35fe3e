//! How the bytes of a value reach the client: one function for each placement, and the choice between them.

use fabric::Slice;
use kv_proto::wire::{Answer, Place, Status};
use kv_store::{Pinned, Ranges};

use super::answer_handle::AnswerHandle;
use super::draft::Behind;
use super::serving::Serving;
use crate::engine::within;
use crate::workers::send_buffers::LARGEST;

/// Which bytes of a value, and where they go.
pub(super) struct Part {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) place: Place,
    pub(super) checksum: bool,
    /// Whether the client may read them in the pool.
    pub(super) in_place: bool,
}

enum Placement {
    /// They stay in the pool, at this offset, and the client reads them there.
    InPlace { offset: u64 },
    /// They are copied behind the answers.
    Copied,
    /// They are written from the pool, behind the answers.
    Packed,
    /// They are written from the pool, into a region of the client's.
    Apart { region: u32, at: u64 },
}

/// Until when the value must stay where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placed {
    /// Its bytes are copied already, or none are wanted.
    Copied,
    /// Until it was written.
    Written,
    /// Until the client has read it.
    InPlace,
}

impl Serving<'_> {
    /// Makes a part of a value part of the answer.
    #[inline]
    pub(super) fn place(&mut self, value: &Pinned, part: &Part, answer: &mut Answer) -> Placed {
        let (ranges, total) = (&value.ranges, value.facts.length);
        let available = part.length.min(total.saturating_sub(part.offset));
        let wanted = self.allow(available, part);
        let placed = match self.choose(ranges, total, part, wanted) {
            Placement::InPlace { offset } => self.leave_in_place(offset, wanted, answer),
            Placement::Copied => self.copy(ranges, part.offset, wanted, answer),
            Placement::Packed => self.write_packed(ranges, part.offset, wanted, answer),
            Placement::Apart { region, at } => {
                match self.write_apart((region, at), ranges, part.offset, wanted) {
                    Some(written) => {
                        answer.written = written;
                        Placed::Written
                    }
                    None => {
                        *answer = Answer::new(Status::NoRegion);
                        return Placed::Copied;
                    }
                }
            }
        };
        if part.checksum {
            let sum = self.context.engine.checksum(ranges, part.offset, answer.written);
            answer.checksum = Some(sum);
        }
        self.context.tally.bytes_out += answer.written;
        placed
    }

    /// How many of the bytes this batch may have now.
    #[inline]
    fn allow(&mut self, wanted: u64, part: &Part) -> u64 {
        let apart = matches!(part.place, Place::Region { .. });
        match apart || part.checksum {
            true => self.draft.limits.allow(wanted, apart, part.checksum),
            false => wanted,
        }
    }

    #[inline]
    fn choose(&self, ranges: &Ranges, total: u64, part: &Part, wanted: u64) -> Placement {
        if let Place::Region { region, at } = part.place {
            return Placement::Apart { region, at };
        }
        if wanted as usize <= COPIED && self.draft.rendered() + COPIED <= LARGEST / 2 {
            return Placement::Copied;
        }
        let to_its_end = part.offset.saturating_add(wanted) == total;
        // The client reads one range, to the value's end.
        if part.in_place
            && to_its_end
            && wanted <= MAX_IN_PLACE
            && let Some((offset, length)) = within(ranges, part.offset, wanted).next()
            && length == wanted
        {
            return Placement::InPlace { offset };
        }
        Placement::Packed
    }

    #[inline]
    fn leave_in_place(&mut self, offset: u64, wanted: u64, answer: &mut Answer) -> Placed {
        AnswerHandle::PoolOffset(offset).put(answer);
        answer.written = wanted;
        self.draft.in_place.bytes += wanted;
        self.context.tally.zero_copy_reads += 1;
        Placed::InPlace
    }

    #[inline]
    fn copy(&mut self, ranges: &Ranges, offset: u64, wanted: u64, answer: &mut Answer) -> Placed {
        let copied = &mut self.draft.copied;
        let begun = copied.len();
        copied.resize(begun + wanted as usize, 0);
        self.context.engine.copy_out(ranges, offset, &mut copied[begun..]);
        self.draft.put_copied(wanted as usize);
        answer.written = wanted;
        Placed::Copied
    }

    fn write_packed(
        &mut self,
        ranges: &Ranges,
        offset: u64,
        wanted: u64,
        answer: &mut Answer,
    ) -> Placed {
        let (draft, pool) = (&mut *self.draft, &self.context.pool);
        let places = within(ranges, offset, wanted);
        for (at, length) in places.take(draft.limits.pieces_left()) {
            let slice = pool.slice(at as usize..(at + length) as usize);
            draft.behind.push(Behind::Pool(slice));
            draft.limits.take_piece();
            answer.written += length;
        }
        Placed::Written
    }

    /// Returns how many bytes are written; `None`: there is no such region, or they do not fit into it.
    fn write_apart(
        &mut self,
        (region, to): (u32, u64),
        ranges: &Ranges,
        offset: u64,
        wanted: u64,
    ) -> Option<u64> {
        let window = self.client.reach(region, to, wanted)?;
        let (draft, context) = (&mut *self.draft, &mut *self.context);
        let mut slices: Vec<Slice> = context.spare.pop().unwrap_or_default();
        let mut written = 0;
        let places = within(ranges, offset, wanted);
        for (at, length) in places.take(draft.limits.pieces_left()) {
            slices.push(context.pool.slice(at as usize..(at + length) as usize));
            draft.limits.take_piece();
            written += length;
        }
        draft.apart.push((window.clone(), to, slices));
        Some(written)
    }
}

/// Values up to this size may be read in place. Longer ones are better copied by us while the client does something else.
const MAX_IN_PLACE: u64 = 64 << 10;
/// Values up to this size are copied into the answer: cheaper than a piece of their own.
const COPIED: usize = 1024;
