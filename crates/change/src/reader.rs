//! A look at a machine: what things on it are now.

use node::Tree;

use super::{Error, Machine, State, Target};

/// A fresh look. What was read once is not read again, so a look is taken anew after each change.
#[derive(Debug)]
pub struct Look<'m> {
    /// For values, and for what drivers answer.
    pub(super) tree: Tree,
    /// For files, which a tree may tell without their secrets; `None`: a snapshot has what it has.
    pub(super) machine: Option<&'m Machine>,
}

impl Look<'_> {
    /// A look at a snapshot, to plan for its machine.
    pub fn kept(tree: Tree) -> Look<'static> {
        Look { tree, machine: None }
    }

    /// Whether this is the running machine.
    pub fn is_live(&self) -> bool {
        self.tree.is_live()
    }

    /// What something is now.
    pub fn at(&self, target: &Target) -> Result<State, Error> {
        target.read(self)
    }
}
