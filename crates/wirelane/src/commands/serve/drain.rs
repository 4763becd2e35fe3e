//! The end, when it is not waited for.

use super::status::Status;
use crate::output::Failure;

/// A second signal came while something was in flight.
pub(super) fn cut_short(status: &Status) -> Failure {
    let links = status.handle().map_or(0, kv_server::WorkerPoolHandle::connections);
    let calls = status.parts.grpc.connections();
    Failure::failed(format!(
        "shutting down: ended at once by a second signal, with {links} links and {calls} gRPC connections open — \
         wait for as long as --drain says to end in order"
    ))
}
