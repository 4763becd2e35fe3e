//! Raises the limit on open file descriptors, since each link needs some.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit, and warns if that is too low for `max_clients`, or for some clients by default.
pub(super) fn raise(max_clients: Option<u32>) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, ?current, ?maximum, "cannot raise the limit on file descriptors");
    }
    let Some(limit) = getrlimit(Resource::Nofile).current else { return };
    let clients = clients(limit);
    if clients < u64::from(max_clients.unwrap_or(DEFAULT_CLIENTS)) {
        tracing::warn!(
            limit,
            "the limit on file descriptors is enough for about {clients} clients over shared memory, others have to wait: raise \
             `ulimit -Hn` (LimitNOFILE= in a systemd unit), or lower --max-clients"
        );
    }
}

/// The number of clients that a limit is enough for.
fn clients(limit: u64) -> u64 {
    limit.saturating_sub(SERVER_DESCRIPTORS) / CLIENT_DESCRIPTORS
}

/// Checked without --max-clients.
const DEFAULT_CLIENTS: u32 = 200;
/// Of a link over shared memory: its lane, its control connection, what it sleeps on.
const CLIENT_DESCRIPTORS: u64 = 12;
/// Of the server itself, HTTP, gRPC and handshakes.
const SERVER_DESCRIPTORS: u64 = 1100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_few_clients() {
        assert_eq!((clients(1024), clients(1 << 20) > 80_000), (0, true));
    }
}
