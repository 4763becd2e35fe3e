//! Counts the allocations of each thread.
#![allow(unsafe_code, reason = "an allocator is an unsafe trait; this one only counts calls")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has allocated memory.
pub(super) fn of_this_thread() -> u64 {
    COUNT.get()
}

/// The system's allocator, counting.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is forwarded to `System`, which upholds the contract of the trait.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller got `pointer` from `alloc`, and so from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[test]
fn an_allocation_is_counted() {
    let before = of_this_thread();
    let bytes = std::hint::black_box(vec![0_u8; 10]);
    assert_eq!(of_this_thread(), before + 1);
    drop(bytes);
    assert_eq!(of_this_thread(), before + 1);
}
