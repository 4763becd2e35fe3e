//! Shutdown that is cut short by a second signal.

use super::status::Status;
use crate::output::Failure;

/// A second signal was received while requests were in flight.
pub(super) fn cut_short(status: &Status) -> Failure {
    let links = status.handle().map_or(0, kv_server::WorkerPoolHandle::connections);
    let calls = status.parts.grpc.connections();
    Failure::failed(format!(
        "shutdown aborted by a second signal, with {links} links and {calls} gRPC connections open — \
         wait for --drain to finish requests in flight"
    ))
}
