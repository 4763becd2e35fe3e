//! The environment variables of libfabric that lanes need: libfabric has no other interface for these settings.

use std::ffi::OsStr;

use super::usable_provider::is_rdma;

/// Variables that a process with lanes over libfabric must set before it starts a second thread, unless its user has set them:
/// - no registration cache: it detects unmapped memory by patching the C library, which misses the memory of lanes;
/// - queues for few peers: a lane's endpoint has one, and ofi_rxm allocates for 256, more than some devices support;
/// - shared receives of ofi_rxm, and few of them: per-connection receives are accessed after
///   their connection is freed, if a message arrives while an endpoint is closed (1.17 to 2.6, seen over soft-RoCE);
/// - no signal handlers: libinfinipath, which comes with Debian's libfabric, handles SIGTERM, SIGINT and others when it is
///   loaded, and exits the process immediately, with code 1.
pub const ENVIRONMENT: [(&str, &str); 5] = [
    (CACHE, "0"),
    ("FI_UNIVERSE_SIZE", "16"),
    (SHARED, "1"),
    ("FI_OFI_RXM_MSG_RX_SIZE", "256"),
    ("IPATH_NO_BACKTRACE", "1"),
];

/// Whether the registration cache must be disabled for a provider of this name. Not for EFA (1.17 to 2.6): it uses the cache
/// only for applications that do not register memory themselves. Software providers have no cache.
pub fn caches_registrations(provider: &str) -> bool {
    is_rdma(provider) && provider != "efa"
}

/// Why lanes cannot use this provider in this environment, and the fix.
pub(super) fn environment_problem(
    provider: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<(&'static str, String)> {
    let is_on = |value: &str| ["1", "yes", "true", "on"].contains(&value);
    let fix = |name: &str, value: &str| format!("set {name}={value} in the environment");
    if caches_registrations(provider) && variable(CACHE).is_none_or(|count| count != "0") {
        let why = "libfabric's registration cache is on, and does not notice when memory is unmapped: data would be \
                   written to stale addresses";
        return Some((why, fix(CACHE, "0")));
    }
    let by_rxm = is_rdma(provider) && provider.ends_with(";ofi_rxm");
    if by_rxm && variable(SHARED).is_none_or(|shared| !is_on(&shared)) {
        let why = "ofi_rxm accesses receives of a connection after freeing it";
        return Some((why, fix(SHARED, "1")));
    }
    // The variable for tcp takes precedence over the general one.
    let waits = if provider.starts_with("tcp") { &WAITS[..] } else { &WAITS[1..] };
    if provider.ends_with(";ofi_rxm")
        && let Some((name, kind)) = waits.iter().find_map(|name| Some((name, variable(name)?)))
        && kind.eq_ignore_ascii_case("pollfd")
    {
        let why =
            "with wait object pollfd, ofi_rxm's wait descriptor misses connections (1.16 to 2.6)";
        return Some((why, format!("unset {name} in the environment")));
    }
    None
}

/// An environment variable of this process.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| OsStr::to_string_lossy(&value).into_owned())
}

const CACHE: &str = "FI_MR_CACHE_MAX_COUNT";
const SHARED: &str = "FI_OFI_RXM_USE_SRX";
/// The first applies to tcp only.
const WAITS: [&str; 2] = ["FI_OFI_RXM_DEF_TCP_WAIT_OBJ", "FI_OFI_RXM_DEF_WAIT_OBJ"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_of_the_list_is_required() {
        let all = |name: &str| {
            ENVIRONMENT.iter().find(|known| known.0 == name).map(|known| known.1.to_owned())
        };
        let without = |left_out: &str, provider: &str| {
            let problem =
                environment_problem(provider, |name| all(name).filter(|_| name != left_out));
            problem.map(|(_, fix)| fix)
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
        assert!(environment_problem("verbs;ofi_rxm", off).is_some());
        let waits = |kinds: [Option<&str>; 2], provider: &str| {
            let set = |name: &str| Some(kinds[WAITS.iter().position(|wait| *wait == name)?]);
            let value =
                |name: &str| set(name).unwrap_or(None).map(str::to_owned).or_else(|| all(name));
            environment_problem(provider, value).map(|(_, fix)| fix)
        };
        let fix = |name: &str| Some(format!("unset {name} in the environment"));
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
