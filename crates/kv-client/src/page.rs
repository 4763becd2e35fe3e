//! Listings, page by page.

use crate::value::Facts;

/// A page of a listing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Page {
    /// Keys with what is known of their values, in no order.
    pub keys: Vec<(Vec<u8>, Facts)>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Cursor>,
}

/// Where a page of a listing begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor(pub(crate) u64);

impl Cursor {
    /// The first page.
    pub const START: Cursor = Cursor(0);
}

impl Default for Cursor {
    fn default() -> Self {
        Cursor::START
    }
}
