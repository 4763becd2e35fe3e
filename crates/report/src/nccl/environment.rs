//! Filters a run's environment: nccl-tests writes all variables to its JSON, including secrets.

use std::collections::BTreeMap;

/// Variables of NCCL and UCX, with the values of those that contain no secret.
pub(super) fn redact<'e>(
    variables: impl IntoIterator<Item = &'e str>,
) -> BTreeMap<String, Option<String>> {
    let kept = variables.into_iter().filter_map(|variable| {
        let (name, value) = variable.split_once('=')?;
        let is_fabric = ["NCCL_", "UCX_"].iter().any(|prefix| name.starts_with(prefix));
        let fits = name.len() <= MAX_CHARS && name.bytes().all(|byte| byte.is_ascii_graphic());
        (is_fabric && fits).then(|| (name.to_owned(), safe(name, value)))
    });
    kept.take(MAX_VARIABLES).collect()
}

fn safe(name: &str, value: &str) -> Option<String> {
    let plain = value.len() <= MAX_CHARS && value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    (SAFE.contains(&name) && plain).then(|| value.to_owned())
}

/// Variables whose values describe only the fabric.
const SAFE: &[&str] = &[
    "NCCL_ALGO",
    "NCCL_COLLNET_ENABLE",
    "NCCL_DEBUG",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_HCA",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MNNVL_ENABLE",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_PROTO",
    "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "UCX_NET_DEVICES",
    "UCX_TLS",
];
const MAX_CHARS: usize = 200;
const MAX_VARIABLES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_dropped() {
        let kept = redact([
            "PATH=/usr/bin",
            "EXAMPLE_TOKEN=not-a-secret",
            "NCCL_IB_HCA==mlx5_0:1",
            "NCCL_TUNER_PLUGIN=https://user:pass@host/",
            "NCCL_NET=IB\u{1b}[2J",
            "UCX_TLS",
        ]);
        let kept: Vec<(&str, Option<&str>)> =
            kept.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        let known = ("NCCL_IB_HCA", Some("=mlx5_0:1"));
        assert_eq!(kept, [known, ("NCCL_NET", None), ("NCCL_TUNER_PLUGIN", None)]);
    }
}
