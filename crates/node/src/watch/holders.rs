//! Processes with RDMA resources.

use crate::Tree;
use crate::answers::Holders;

/// Processes with RDMA resources: now on a running machine, or those in a snapshot. `None` if the kernel has no
/// RDMA or the snapshot does not contain them.
pub fn holders(tree: &Tree) -> Option<Holders> {
    if tree.is_live() {
        return crate::answers::holders::query();
    }
    tree.answers().holders().cloned()
}
