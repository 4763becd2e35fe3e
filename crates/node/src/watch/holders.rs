//! Processes that hold RDMA resources.

use crate::Tree;
use crate::answers::Holders;

/// Who holds RDMA resources: on a running machine now, of a snapshot as it was then. Nothing, where the kernel has no
/// RDMA or the snapshot does not tell.
pub fn holders(tree: &Tree) -> Option<Holders> {
    if tree.is_live() {
        return crate::answers::holders::ask();
    }
    tree.answers().holders().cloned()
}
