//! What the word [`Answer::handle`] means: the wire has one place for several things, told apart by the request, and by
//! [`Answer::in_place`].

use kv_proto::wire::Answer;

pub(super) enum AnswerHandle {
    /// A version of a value that is kept to be read on.
    Cursor(u64),
    /// Room for a value that comes in pieces.
    Staged(u64),
    /// Where a listing goes on; 0: nowhere.
    NextPage(u64),
    /// Where in the pool the client finds a value that it reads in place.
    PoolOffset(u64),
}

impl AnswerHandle {
    #[inline]
    pub(super) fn put(self, answer: &mut Answer) {
        (answer.handle, answer.in_place) = match self {
            AnswerHandle::Cursor(word)
            | AnswerHandle::Staged(word)
            | AnswerHandle::NextPage(word) => (word, false),
            AnswerHandle::PoolOffset(offset) => (offset, true),
        };
    }
}
