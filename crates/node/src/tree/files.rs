//! The files of one folder, read in one of two ways: through the tree's looks, or as they are now.

use super::{Fresh, Tree};
use crate::Seen;

/// A folder of small files.
pub(crate) trait Files<'t>: Sized {
    /// The folder; nothing, where it is known not to be there.
    fn open(tree: &'t Tree, path: String) -> Option<Self>;

    /// The names in it, in the same order each time; at most so many.
    fn names(&self, most: usize) -> Vec<String>;

    /// A file's text, without the white space around it.
    fn text(&self, name: &str) -> Seen<String>;
}

/// Files that are read once and kept, as a snapshot needs it.
#[derive(Debug)]
pub(crate) struct Kept<'t> {
    tree: &'t Tree,
    path: String,
}

impl<'t> Files<'t> for Kept<'t> {
    fn open(tree: &'t Tree, path: String) -> Option<Self> {
        Some(Kept { tree, path })
    }

    fn names(&self, most: usize) -> Vec<String> {
        let mut names = self.tree.list(&self.path);
        names.truncate(most);
        names
    }

    fn text(&self, name: &str) -> Seen<String> {
        self.tree.text(&format!("{}/{name}", self.path))
    }
}

impl<'t> Files<'t> for Fresh<'t> {
    fn open(tree: &'t Tree, path: String) -> Option<Self> {
        Fresh::open(tree, path)
    }

    fn names(&self, most: usize) -> Vec<String> {
        let mut names = Fresh::names(self, most);
        names.sort_unstable();
        names
    }

    fn text(&self, name: &str) -> Seen<String> {
        Fresh::text(self, name)
    }
}
