//! What libfabric reads of the environment and lanes need: it has no other listener to these.

use std::ffi::OsStr;

use super::usable_provider::is_rdma;

/// What a process that makes lanes over libfabric sets before it has a second thread, unless its user has set it:
/// - no cache of registrations: it watches for memory that is unmapped by patching the C library, by which ours does not go;
/// - queues for few peers: an endpoint of ours has one, and ofi_rxm makes room for 256, more than some devices have;
/// - receives of ofi_rxm that are the endpoint's and not a connection's, and few of them: else it touches them after
///   their connection is freed, when a message comes while an endpoint is closed (1.17 to 2.6, seen over soft-RoCE);
/// - signals that stay ours: libinfinipath, which comes with Debian's libfabric, takes SIGTERM, SIGINT and others when it is
///   loaded, and ends the process at once, with 1.
pub const ENVIRONMENT: [(&str, &str); 5] = [
    (CACHE, "0"),
    ("FI_UNIVERSE_SIZE", "16"),
    (SHARED, "1"),
    ("FI_OFI_RXM_MSG_RX_SIZE", "256"),
    ("IPATH_NO_BACKTRACE", "1"),
];

/// Whether a provider of this name needs the cache of registrations off. EFA does not (1.17 to 2.6): it opens the cache
/// for those who cannot register by themselves. Software has none.
pub fn keeps_registrations(provider: &str) -> bool {
    is_rdma(provider) && provider != "efa"
}

/// Why lanes cannot be had by this provider in this environment, and what to do.
pub(super) fn obstacle(
    provider: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<(&'static str, String)> {
    let is_on = |value: &str| ["1", "yes", "true", "on"].contains(&value);
    let fix = |name: &str, value: &str| format!("set {name}={value} in the environment");
    if keeps_registrations(provider) && variable(CACHE).is_none_or(|most| most != "0") {
        let why = "libfabric keeps its registrations in a cache, which does not see our memory come and go: bytes \
                   would go where a region was before";
        return Some((why, fix(CACHE, "0")));
    }
    let by_rxm = is_rdma(provider) && provider.ends_with(";ofi_rxm");
    if by_rxm && variable(SHARED).is_none_or(|shared| !is_on(&shared)) {
        let why = "ofi_rxm uses receives of a connection after it was freed";
        return Some((why, fix(SHARED, "1")));
    }
    // What is said for tcp goes before what is said for all.
    let waits = if provider.starts_with("tcp") { &WAITS[..] } else { &WAITS[1..] };
    if provider.ends_with(";ofi_rxm")
        && let Some((name, kind)) = waits.iter().find_map(|name| Some((name, variable(name)?)))
        && kind.eq_ignore_ascii_case("pollfd")
    {
        let why = "ofi_rxm then leaves connections out of the descriptor that lanes sleep on (1.16 to 2.6)";
        return Some((why, format!("take {name} out of the environment")));
    }
    None
}

/// A variable of this process.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| OsStr::to_string_lossy(&value).into_owned())
}

const CACHE: &str = "FI_MR_CACHE_MAX_COUNT";
const SHARED: &str = "FI_OFI_RXM_USE_SRX";
/// The first holds for tcp alone.
const WAITS: [&str; 2] = ["FI_OFI_RXM_DEF_TCP_WAIT_OBJ", "FI_OFI_RXM_DEF_WAIT_OBJ"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_sets_for_itself_is_enough_and_less_is_not() {
        let all = |name: &str| {
            ENVIRONMENT.iter().find(|known| known.0 == name).map(|known| known.1.to_owned())
        };
        let without = |left_out: &str, provider: &str| {
            let obstacle = obstacle(provider, |name| all(name).filter(|_| name != left_out));
            obstacle.map(|(_, fix)| fix)
        };
        for provider in ["efa", "verbs;ofi_rxm", "cxi", "tcp;ofi_rxm", "tcp", "shm"] {
            assert_eq!(without("", provider), None);
        }
        let cache = Some("set FI_MR_CACHE_MAX_COUNT=0 in the environment".to_owned());
        assert_eq!(without(CACHE, "verbs;ofi_rxm"), cache);
        assert_eq!((without(CACHE, "cxi"), without(CACHE, "efa")), (cache, None));
        let shared = Some("set FI_OFI_RXM_USE_SRX=1 in the environment".to_owned());
        assert_eq!(without(SHARED, "verbs;ofi_rxm"), shared);
        assert_eq!((without(SHARED, "cxi"), without(SHARED, "tcp;ofi_rxm")), (None, None));
        let off =
            |name: &str| all(name).map(|value| if name == SHARED { "off".into() } else { value });
        assert!(obstacle("verbs;ofi_rxm", off).is_some());
        let waits = |kinds: [Option<&str>; 2], provider: &str| {
            let set = |name: &str| Some(kinds[WAITS.iter().position(|wait| *wait == name)?]);
            let told =
                |name: &str| set(name).unwrap_or(None).map(str::to_owned).or_else(|| all(name));
            obstacle(provider, told).map(|(_, fix)| fix)
        };
        let fix = |name: &str| Some(format!("take {name} out of the environment"));
        let (fd, pollfd) = (Some("fd"), Some("PollFD"));
        for (provider, for_tcp, for_all, both) in [
            ("tcp;ofi_rxm", fix(WAITS[0]), fix(WAITS[1]), None),
            ("verbs;ofi_rxm", None, fix(WAITS[1]), fix(WAITS[1])),
            ("efa", None, None, None),
            ("tcp", None, None, None),
        ] {
            assert_eq!(waits([pollfd, None], provider), for_tcp, "{provider}");
            assert_eq!(waits([None, pollfd], provider), for_all, "{provider}");
            assert_eq!(waits([fd, pollfd], provider), both, "{provider}");
        }
    }
}
