//! Reads the current state of targets on a machine.

use node::Tree;

use super::{Error, Machine, State, Target};

/// Reads targets. It caches what it has read, so a new reader is needed after each change.
#[derive(Debug)]
pub struct Reader<'m> {
    /// For values, and for answers of drivers.
    pub(super) tree: Tree,
    /// For files: the tree leaves out secrets in them. `None`: files are read from the snapshot.
    pub(super) machine: Option<&'m Machine>,
}

impl Reader<'_> {
    /// A reader of a snapshot, to plan for its machine.
    pub fn of_snapshot(tree: Tree) -> Reader<'static> {
        Reader { tree, machine: None }
    }

    /// Whether this is the running machine.
    pub fn is_live(&self) -> bool {
        self.tree.is_live()
    }

    /// The current state of a target.
    pub fn read(&self, target: &Target) -> Result<State, Error> {
        target.read(self)
    }
}
