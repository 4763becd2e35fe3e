//! Calls that were begun and not finished.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::token::Token;

/// A call that was begun and not finished: its result will be a `T`, a [`Value`](crate::Value) or
/// [`Stored`](crate::Stored).
///
/// Dropping it gives up the result, and frees the part of the receive buffer that is reserved for it once the store has
/// answered. The call itself is not cancelled: a write happens all the same.
#[derive(Debug)]
#[must_use = "a call that is dropped is still done, but its result is lost"]
pub struct Pending<T> {
    token: Token,
    /// `None` once it is finished.
    abandoned: Option<Arc<Abandoned>>,
    result: PhantomData<fn() -> T>,
}

/// Tokens of pending calls that were dropped, until their client notices.
#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    any: AtomicBool,
    tokens: Mutex<Vec<Token>>,
}

impl<T> Pending<T> {
    #[inline]
    pub(crate) fn new(token: Token, abandoned: &Arc<Abandoned>) -> Self {
        Pending { token, abandoned: Some(abandoned.clone()), result: PhantomData }
    }

    /// What [`Client::ready`](crate::Client::ready) calls it.
    #[inline]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Its token, if it was begun by the client with this list.
    #[inline]
    pub(crate) fn finish(mut self, abandoned: &Arc<Abandoned>) -> Option<Token> {
        let ours = self.abandoned.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, abandoned));
        if ours {
            self.abandoned = None;
        }
        ours.then_some(self.token)
    }
}

impl<T> Drop for Pending<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(abandoned) = self.abandoned.take() {
            abandoned.push(self.token);
        }
    }
}

impl Abandoned {
    #[cold]
    fn push(&self, token: Token) {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).push(token);
        self.any.store(true, Ordering::Release);
    }

    /// Those since the last time.
    #[inline]
    pub(crate) fn take(&self) -> Option<Vec<Token>> {
        if !self.any.load(Ordering::Relaxed) || !self.any.swap(false, Ordering::Acquire) {
            return None;
        }
        Some(std::mem::take(&mut *self.tokens.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_call_is_abandoned_and_a_finished_one_is_not() {
        let (ours, others) = (Arc::default(), Arc::default());
        let pending = |row| Pending::<()>::new(Token::new(1, row), &ours);
        assert_eq!(ours.take(), None);
        drop(pending(1));
        assert_eq!(pending(2).finish(&ours), Some(Token::new(1, 2)));
        assert_eq!(pending(3).finish(&others), None, "another client's");
        assert_eq!(ours.take(), Some(vec![Token::new(1, 1), Token::new(1, 3)]));
        assert_eq!((ours.take(), others.take()), (None, None));
    }
}
