//! How the bytes of a value are delivered to the client: the ways, and the choice between them.

use fabric::Slice;
use kv_proto::wire::{Answer, Destination, Status};
use kv_store::{Pinned, Ranges};

use super::answer_handle::AnswerHandle;
use super::batch_answers::Payload;
use super::serving::Serving;
use crate::engine::subranges;
use crate::workers::send_buffers::MAX_SEND_BUFFER_BYTES;

/// The requested bytes of a value, and their destination.
pub(super) struct ReadRange {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) destination: Destination,
    pub(super) checksum: bool,
    /// Whether the client may read them in place.
    pub(super) in_place: bool,
}

enum Delivery {
    /// The client reads them in the pool, at this offset.
    InPlace { offset: u64 },
    /// Copied after the answers.
    Copied,
    /// Written from the pool, after the answers.
    AfterAnswers,
    /// Written from the pool into a region of the client.
    Region { region: u32, at: u64 },
}

/// How long the value must stay pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PinUntil {
    /// No longer: its bytes are copied, or none are wanted.
    Copied,
    /// Until it is written.
    Written,
    /// Until the client has read it.
    InPlace,
}

impl Serving<'_> {
    /// Adds a range of a value to the answer.
    #[inline]
    pub(super) fn add_value(
        &mut self,
        value: &Pinned,
        range: &ReadRange,
        answer: &mut Answer,
    ) -> PinUntil {
        let (ranges, total) = (&value.ranges, value.metadata.length);
        let available = range.length.min(total.saturating_sub(range.offset));
        let wanted = self.allow(available, range);
        let pin_until = match self.choose(ranges, total, range, wanted) {
            Delivery::InPlace { offset } => self.leave_in_place(offset, wanted, answer),
            Delivery::Copied => self.copy(ranges, range.offset, wanted, answer),
            Delivery::AfterAnswers => self.write_packed(ranges, range.offset, wanted, answer),
            Delivery::Region { region, at } => {
                match self.write_to_region((region, at), ranges, range.offset, wanted) {
                    Some(written) => {
                        answer.written = written;
                        PinUntil::Written
                    }
                    None => {
                        *answer = Answer::new(Status::NoRegion);
                        return PinUntil::Copied;
                    }
                }
            }
        };
        if range.checksum {
            let sum = self.context.engine.checksum(ranges, range.offset, answer.written);
            answer.checksum = Some(sum);
        }
        self.context.tally.bytes_out += answer.written;
        pin_until
    }

    /// How many of the bytes the limits of the batch allow.
    #[inline]
    fn allow(&mut self, wanted: u64, range: &ReadRange) -> u64 {
        let to_region = matches!(range.destination, Destination::Region { .. });
        match to_region || range.checksum {
            true => self.batch_answers.limits.allow(wanted, to_region, range.checksum),
            false => wanted,
        }
    }

    #[inline]
    fn choose(&self, ranges: &Ranges, total: u64, range: &ReadRange, wanted: u64) -> Delivery {
        if let Destination::Region { region, at } = range.destination {
            return Delivery::Region { region, at };
        }
        if wanted as usize <= MAX_COPIED_BYTES
            && self.batch_answers.encoded_len() + MAX_COPIED_BYTES <= MAX_SEND_BUFFER_BYTES / 2
        {
            return Delivery::Copied;
        }
        let to_end = range.offset.saturating_add(wanted) == total;
        // In place, the client reads one range, to the value's end.
        if range.in_place
            && to_end
            && wanted <= MAX_IN_PLACE_BYTES
            && let Some((offset, length)) = subranges(ranges, range.offset, wanted).next()
            && length == wanted
        {
            return Delivery::InPlace { offset };
        }
        Delivery::AfterAnswers
    }

    #[inline]
    fn leave_in_place(&mut self, offset: u64, wanted: u64, answer: &mut Answer) -> PinUntil {
        AnswerHandle::PoolOffset(offset).put(answer);
        answer.written = wanted;
        self.batch_answers.in_place.bytes += wanted;
        self.context.tally.in_place_reads += 1;
        PinUntil::InPlace
    }

    #[inline]
    fn copy(&mut self, ranges: &Ranges, offset: u64, wanted: u64, answer: &mut Answer) -> PinUntil {
        let copied = &mut self.batch_answers.copied;
        let start = copied.len();
        copied.resize(start + wanted as usize, 0);
        self.context.engine.copy_out(ranges, offset, &mut copied[start..]);
        self.batch_answers.put_copied(wanted as usize);
        answer.written = wanted;
        PinUntil::Copied
    }

    fn write_packed(
        &mut self,
        ranges: &Ranges,
        offset: u64,
        wanted: u64,
        answer: &mut Answer,
    ) -> PinUntil {
        let (batch_answers, pool) = (&mut *self.batch_answers, &self.context.pool);
        let places = subranges(ranges, offset, wanted);
        for (at, length) in places.take(batch_answers.limits.slices_left()) {
            let slice = pool.slice(at as usize..(at + length) as usize);
            batch_answers.payload.push(Payload::Pool(slice));
            batch_answers.limits.take_slice();
            answer.written += length;
        }
        PinUntil::Written
    }

    /// Returns the number of bytes to be written; `None`: there is no such region, or they do not fit into it.
    fn write_to_region(
        &mut self,
        (region, to): (u32, u64),
        ranges: &Ranges,
        offset: u64,
        wanted: u64,
    ) -> Option<u64> {
        let window = self.client.window_for(region, to, wanted)?;
        let (batch_answers, context) = (&mut *self.batch_answers, &mut *self.context);
        let mut slices: Vec<Slice> = context.spare.pop().unwrap_or_default();
        let mut written = 0;
        let places = subranges(ranges, offset, wanted);
        for (at, length) in places.take(batch_answers.limits.slices_left()) {
            slices.push(context.pool.slice(at as usize..(at + length) as usize));
            batch_answers.limits.take_slice();
            written += length;
        }
        batch_answers.region_writes.push((window.clone(), to, slices));
        Some(written)
    }
}

/// Values up to this size may be read in place. Longer ones are better copied by the store while the client does other
/// work.
const MAX_IN_PLACE_BYTES: u64 = 64 << 10;
/// Values up to this size are copied into the answer: cheaper than a separate slice.
const MAX_COPIED_BYTES: usize = 1024;
