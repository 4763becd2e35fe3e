//! How many descriptors this process may open: as many as the system lets it, since each link needs some.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to what is allowed without asking anybody, and says so if that is too low for so many clients, or
/// for a few if nobody said how many.
pub(super) fn raise(max_clients: Option<u32>) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, ?current, ?maximum, "the limit of descriptors stays as it is");
    }
    let Some(limit) = getrlimit(Resource::Nofile).current else { return };
    let clients = clients(limit);
    if clients < u64::from(max_clients.unwrap_or(A_FEW)) {
        tracing::warn!(
            limit,
            "there are descriptors for about {clients} clients by shared memory, others will have to wait: raise \
             `ulimit -Hn` (LimitNOFILE= in a systemd unit), or say by --max-clients how many there may be"
        );
    }
}

/// How many clients so many descriptors are enough for.
fn clients(limit: u64) -> u64 {
    limit.saturating_sub(OURS) / EACH
}

/// Fewer are surely too few.
const A_FEW: u32 = 200;
/// What a link by shared memory takes: its lane, its control connection, what it sleeps on.
const EACH: u64 = 12;
/// The server's own, and those of HTTP, gRPC and handshakes.
const OURS: u64 = 1100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_are_few_clients() {
        assert_eq!((clients(1024), clients(1 << 20) > 80_000), (0, true));
    }
}
