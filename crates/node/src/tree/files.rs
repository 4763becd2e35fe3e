//! The files of one folder, read through the tree's cache or without it.

use super::{FreshFolder, Tree};
use crate::Reading;

/// A folder of small files.
pub(crate) trait Files<'t>: Sized {
    /// Opens the folder; `None` if it is known to be missing.
    fn open(tree: &'t Tree, path: String) -> Option<Self>;

    /// At most `max` of its names, always in the same order.
    fn names(&self, max: usize) -> Vec<String>;

    /// The text of a file, trimmed.
    fn text(&self, name: &str) -> Reading<String>;
}

/// Files that are read once and cached, as a snapshot needs it.
#[derive(Debug)]
pub(crate) struct CachedFolder<'t> {
    tree: &'t Tree,
    path: String,
}

impl<'t> Files<'t> for CachedFolder<'t> {
    fn open(tree: &'t Tree, path: String) -> Option<Self> {
        Some(CachedFolder { tree, path })
    }

    fn names(&self, max: usize) -> Vec<String> {
        let mut names = self.tree.list(&self.path);
        names.truncate(max);
        names
    }

    fn text(&self, name: &str) -> Reading<String> {
        self.tree.text(&format!("{}/{name}", self.path))
    }
}

impl<'t> Files<'t> for FreshFolder<'t> {
    fn open(tree: &'t Tree, path: String) -> Option<Self> {
        FreshFolder::open(tree, path)
    }

    fn names(&self, max: usize) -> Vec<String> {
        let mut names = FreshFolder::names(self, max);
        names.sort_unstable();
        names
    }

    fn text(&self, name: &str) -> Reading<String> {
        FreshFolder::text(self, name)
    }
}
