//! The meanings of [`Answer::handle`]: the wire format has one field for several things, distinguished by the request and
//! by [`Answer::in_place`].

use kv_proto::wire::Answer;

pub(super) enum AnswerHandle {
    /// A pinned version of a value, for further reads.
    Read(u64),
    /// A staged value, for its chunks.
    Staged(u64),
    /// Where a listing continues; 0: at its end.
    NextPage(u64),
    /// The offset in the pool of a value that the client reads in place.
    PoolOffset(u64),
}

impl AnswerHandle {
    #[inline]
    pub(super) fn put(self, answer: &mut Answer) {
        (answer.handle, answer.in_place) = match self {
            AnswerHandle::Read(word)
            | AnswerHandle::Staged(word)
            | AnswerHandle::NextPage(word) => (word, false),
            AnswerHandle::PoolOffset(offset) => (offset, true),
        };
    }
}
