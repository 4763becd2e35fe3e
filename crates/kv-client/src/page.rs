//! Listings, page by page.

use crate::value::Metadata;

/// A page of a listing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Page {
    /// Keys and the metadata of their values, in no order.
    pub keys: Vec<(Vec<u8>, Metadata)>,
    /// The cursor of the next page; `None` after the last one.
    pub next: Option<Cursor>,
}

/// The start of a page of a listing.
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
