//! Variables of the environment that tell of the fabric. The program hands them in: nothing here asks for them.

use std::collections::{BTreeMap, BTreeSet};

use super::scrub;

/// Those variables that may be kept. One that looks like a secret is named in `scrubbed` instead.
pub(super) fn keep(
    variables: impl IntoIterator<Item = (String, String)>,
    scrubbed: &mut BTreeSet<String>,
) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for (name, value) in variables.into_iter().filter(|(name, _)| is_of_the_fabric(name)) {
        if scrub::is_secret(&format!("{name}={value}")) || value.len() > LONGEST {
            scrubbed.insert(format!("${name}"));
        } else if kept.len() < MAX {
            kept.insert(name, value);
        }
    }
    kept
}

fn is_of_the_fabric(name: &str) -> bool {
    let prefixes = ["PCIDEVICE_", "SRIOVNETWORK_", "NCCL_", "UCX_", "FI_", "OMPI_MCA_"];
    name == "CUDA_VISIBLE_DEVICES" || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

const MAX: usize = 4096;
const LONGEST: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_environment_only_what_is_of_the_fabric_and_no_secret_is_kept() {
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
        let mut scrubbed = BTreeSet::new();
        let kept = keep(variables, &mut scrubbed);
        let names: Vec<&str> = kept.keys().map(String::as_str).collect();
        assert_eq!(names, ["NCCL_IB_HCA", "PCIDEVICE_NVIDIA_COM_MLNX-RDMA", "UCX_IB_PKEY"]);
        let scrubbed: Vec<String> = scrubbed.into_iter().collect();
        assert_eq!(scrubbed, ["$FI_PROXY", "$NCCL_NET_PLUGIN_TOKEN"]);
    }
}
