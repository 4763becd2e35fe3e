//! Processes with RDMA resources.

use crate::Tree;
use crate::queries::ProcessResourcesList;

/// Processes with RDMA resources: now on a running machine, or those in a snapshot. `None` if the kernel has no
/// RDMA or the snapshot does not contain them.
pub fn process_resources(tree: &Tree) -> Option<ProcessResourcesList> {
    if tree.is_live() {
        return crate::queries::process_resources::query();
    }
    tree.query_results().process_resources().cloned()
}
