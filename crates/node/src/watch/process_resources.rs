//! Processes with RDMA resources.

use crate::Tree;
use crate::answers::ProcessResourcesList;

/// Processes with RDMA resources: now on a running machine, or those in a snapshot. `None` if the kernel has no
/// RDMA or the snapshot does not contain them.
pub fn process_resources(tree: &Tree) -> Option<ProcessResourcesList> {
    if tree.is_live() {
        return crate::answers::process_resources::query();
    }
    tree.answers().process_resources().cloned()
}
