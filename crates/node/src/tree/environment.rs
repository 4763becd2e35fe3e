//! Environment variables that are relevant for the fabric. The program passes them: nothing here reads the environment.

use std::collections::{BTreeMap, BTreeSet};

use super::redact;

/// The variables that may be stored. Those that look like a secret are only named in `redacted`.
pub(super) fn keep(
    variables: impl IntoIterator<Item = (String, String)>,
    redacted: &mut BTreeSet<String>,
) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for (name, value) in variables.into_iter().filter(|(name, _)| is_relevant(name)) {
        if redact::is_secret(&format!("{name}={value}")) || value.len() > MAX_VALUE_BYTES {
            redacted.insert(format!("${name}"));
        } else if kept.len() < MAX_VARIABLES {
            kept.insert(name, value);
        }
    }
    kept
}

fn is_relevant(name: &str) -> bool {
    let prefixes = ["PCIDEVICE_", "SRIOVNETWORK_", "NCCL_", "UCX_", "FI_", "OMPI_MCA_"];
    name == "CUDA_VISIBLE_DEVICES" || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

const MAX_VARIABLES: usize = 4096;
const MAX_VALUE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_relevant_variables_without_secrets_are_stored() {
        let variables = [
            ("NCCL_IB_HCA", "=mlx5_0:1"),
            ("UCX_IB_PKEY", "0x8001"),
            ("PCIDEVICE_NVIDIA_COM_MLNX-RDMA", "0000:3b:02.6"),
            ("NCCL_NET_PLUGIN_TOKEN", "abc"),
            ("FI_PROXY", "http://me:pw@host"),
            ("AWS_SECRET_ACCESS_KEY", "abc"),
            ("HOME", "/root"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut redacted = BTreeSet::new();
        let kept = keep(variables, &mut redacted);
        let names: Vec<&str> = kept.keys().map(String::as_str).collect();
        assert_eq!(names, ["NCCL_IB_HCA", "PCIDEVICE_NVIDIA_COM_MLNX-RDMA", "UCX_IB_PKEY"]);
        let redacted: Vec<String> = redacted.into_iter().collect();
        assert_eq!(redacted, ["$FI_PROXY", "$NCCL_NET_PLUGIN_TOKEN"]);
    }
}
