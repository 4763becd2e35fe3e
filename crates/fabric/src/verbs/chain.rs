//! A list of work requests that is posted by one call.
//!
//! Unsafe here: the pointers between requests, and from requests to their SGEs, are valid only during `post`, which
//! sets them each time; so a chain may move to another thread between calls.
#![allow(unsafe_code, reason = "a chain of C structs may change threads")]

use std::ptr::null_mut;

use rdma_sys::Errno;
use rdma_sys::work::{ibv_recv_wr, ibv_send_wr, ibv_sge};

/// Requests to be posted. Keeps its capacity, so that it allocates only while it grows.
pub(super) struct Chain<R> {
    requests: Vec<R>,
    sges: Vec<ibv_sge>,
}

// SAFETY: the pointers inside are dereferenced only during `post`, which sets them first.
unsafe impl<R: Request> Send for Chain<R> {}

/// The driver did not accept all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PostError {
    /// The index of the first refused request; `None` if the driver does not report it.
    pub(super) from: Option<usize>,
}

impl<R: Request> Chain<R> {
    pub(super) fn new() -> Self {
        Chain { requests: Vec::new(), sges: Vec::new() }
    }

    /// Adds an SGE to the request that is pushed next.
    #[inline]
    pub(super) fn add_sge(&mut self, sge: ibv_sge) {
        self.sges.push(sge);
    }

    #[inline]
    pub(super) fn push(&mut self, request: R) {
        self.requests.push(request);
    }

    pub(super) fn requests(&self) -> &[R] {
        &self.requests
    }

    #[inline]
    pub(super) fn last_mut(&mut self) -> Option<&mut R> {
        self.requests.last_mut()
    }

    /// Posts all requests with `call`, which takes the first request and an output pointer for the first refused one. The
    /// requests stay until [`Chain::clear`].
    #[inline]
    pub(super) fn post(
        &mut self,
        call: impl FnOnce(*mut R, *mut *mut R) -> Result<(), Errno>,
    ) -> Result<(), PostError> {
        if self.requests.is_empty() {
            return Ok(());
        }
        self.link();
        let first = self.requests.as_mut_ptr();
        let mut bad = null_mut();
        call(first, &mut bad).map_err(|_| {
            let bad = bad.cast_const();
            PostError { from: self.requests.iter().position(|request| std::ptr::eq(request, bad)) }
        })
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.sges.clear();
    }

    /// Sets all pointers. The SGEs are in the order of their requests.
    #[inline]
    fn link(&mut self) {
        let mut sges = self.sges.as_mut_ptr();
        let mut next = self.requests.as_mut_ptr();
        let last = self.requests.len() - 1;
        for (at, request) in self.requests.iter_mut().enumerate() {
            next = next.wrapping_add(1);
            let count = request.link(sges, if at == last { null_mut() } else { next });
            sges = sges.wrapping_add(count);
        }
    }
}

/// A work request of libibverbs, which points to the next request and to its SGEs (scatter/gather entries).
pub(super) trait Request: Sized {
    /// Sets both pointers; returns the number of its SGEs.
    fn link(&mut self, sges: *mut ibv_sge, next: *mut Self) -> usize;
}

macro_rules! request {
    ($( $name:ident )*) => { $(
        impl Request for $name {
            #[inline]
            fn link(&mut self, sges: *mut ibv_sge, next: *mut Self) -> usize {
                (self.sg_list, self.next) = (sges, next);
                self.num_sge.unsigned_abs() as usize
            }
        }
    )* };
}

request! { ibv_send_wr ibv_recv_wr }

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(counts: &[i32]) -> Chain<ibv_recv_wr> {
        let mut chain = Chain::new();
        for (at, count) in counts.iter().enumerate() {
            for _ in 0..*count {
                chain.add_sge(ibv_sge { addr: at as u64, length: 1, lkey: 0 });
            }
            let (next, sg_list) = (null_mut(), null_mut());
            chain.push(ibv_recv_wr { wr_id: at as u64, next, sg_list, num_sge: *count });
        }
        chain
    }

    #[test]
    fn requests_are_linked_to_their_sges_and_the_next_request() {
        let mut chain = chain(&[2, 0, 1]);
        chain
            .post(|first, _| {
                let walked = walk(first);
                assert_eq!(walked, [(0, Some(0)), (1, None), (2, Some(2))]);
                Ok(())
            })
            .unwrap();
    }

    /// Walks the chain as a driver does: each request's id and the address of its first SGE.
    fn walk(mut request: *mut ibv_recv_wr) -> Vec<(u64, Option<u64>)> {
        let mut seen = Vec::new();
        while !request.is_null() {
            // SAFETY: `post` linked the requests of a chain that is alive during the call.
            let wr = unsafe { &*request };
            // SAFETY: `post` set `sg_list` to the `num_sge` entries of the chain, which is alive during the call.
            let sge = (wr.num_sge > 0).then(|| unsafe { (*wr.sg_list).addr });
            seen.push((wr.wr_id, sge));
            request = wr.next;
        }
        seen
    }

    #[test]
    fn the_first_refused_request_is_found_if_the_driver_reports_it() {
        let refused = chain(&[1, 1, 1]).post(|first, bad| {
            // SAFETY: `bad` is writable during the call.
            unsafe { *bad = first.wrapping_add(1) };
            Err(Errno(12))
        });
        assert_eq!(refused, Err(PostError { from: Some(1) }));
        let silent = chain(&[1]).post(|_, _| Err(Errno(5)));
        assert_eq!(silent, Err(PostError { from: None }));
    }
}
