//! Removes secrets, and long parts that are not needed, from files.
//!
//! This happens when a file is read, so that a running machine and its snapshot give the same results, and
//! no caller can pass on a secret by mistake.

/// The remaining bytes of a file, and whether something was removed that may be a secret.
pub(super) struct Redacted {
    pub(super) bytes: Vec<u8>,
    pub(super) withheld: bool,
}

/// The bytes that are read of long files with a paragraph or line for each CPU.
pub(super) fn max_bytes(path: &str) -> Option<u64> {
    match path {
        "/proc/cpuinfo" => Some(16 << 10),
        "/proc/stat" => Some(1 << 10),
        _ => None,
    }
}

/// Whether a file is never read: environments of processes, serial numbers, keys.
pub(super) fn is_withheld(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    match name {
        "environ" => path.starts_with("/proc/"),
        "vpd" | "product_uuid" => path.starts_with("/sys/"),
        _ if name.ends_with("_serial") => path.starts_with("/sys/"),
        _ => path.starts_with("/var/run/secrets/") || path.starts_with("/run/secrets/"),
    }
}

/// Removes secrets from a file.
pub(super) fn redact(path: &str, bytes: Vec<u8>) -> Redacted {
    match path {
        "/proc/cmdline" => command_line(&bytes),
        "/proc/cpuinfo" => Redacted { bytes: up_to(bytes, b"\n\n"), withheld: false },
        // All CPUs together.
        "/proc/stat" => Redacted { bytes: up_to(bytes, b"\n"), withheld: false },
        // Other files of the kernel contain no secrets; `pkeys` are none.
        _ if path.starts_with("/sys/") || path.starts_with("/proc/") => {
            Redacted { bytes, withheld: false }
        }
        // A pod's annotations may contain whole manifests, with passwords.
        _ if path.ends_with("/annotations") => annotations(&bytes),
        _ => settings(bytes),
    }
}

/// The networks of a pod.
fn annotations(bytes: &[u8]) -> Redacted {
    let text = String::from_utf8_lossy(bytes);
    let (kept, other): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("k8s.v1.cni.cncf.io/"));
    Redacted { bytes: (kept.join("\n") + "\n").into_bytes(), withheld: !other.is_empty() }
}

/// The arguments that are relevant for the fabric.
fn command_line(bytes: &[u8]) -> Redacted {
    let text = String::from_utf8_lossy(bytes);
    let (kept, other): (Vec<&str>, Vec<&str>) =
        text.split_whitespace().partition(|word| is_relevant(word));
    Redacted { bytes: kept.join(" ").into_bytes(), withheld: !other.is_empty() }
}

fn is_relevant(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    // A module's parameters: `ib_core.netns_mode=0`.
    let module = name.split_once('.').map(|(module, _)| module);
    ARGUMENTS.contains(&name) || module.is_some_and(|module| MODULES.contains(&module))
}

/// The bytes before the mark, and its first byte.
fn up_to(mut bytes: Vec<u8>, mark: &[u8]) -> Vec<u8> {
    if let Some(end) = bytes.windows(mark.len()).position(|window| window == mark) {
        bytes.truncate(end + 1);
    }
    bytes
}

/// Removes the values of lines that look like a secret.
fn settings(bytes: Vec<u8>) -> Redacted {
    // Binary data cannot be searched, and every line of a key is secret.
    let Some(text) = std::str::from_utf8(&bytes).ok().filter(|text| !text.contains("-----BEGIN"))
    else {
        return Redacted { bytes: Vec::new(), withheld: true };
    };
    if !text.lines().any(is_secret) {
        return Redacted { bytes, withheld: false };
    }
    let line = |line| if is_secret(line) { without_value(line) } else { line };
    let lines: Vec<&str> = text.lines().map(line).collect();
    Redacted { bytes: (lines.join("\n") + "\n").into_bytes(), withheld: true }
}

fn without_value(line: &str) -> &str {
    line.split_inclusive(['=', ':', ' ']).next().unwrap_or_default().trim_end()
}

/// Whether a setting, `NAME=value`, looks like a secret.
pub(super) fn is_secret(setting: &str) -> bool {
    let lower = setting.to_ascii_lowercase();
    let named = SECRET_WORDS.iter().any(|word| lower.contains(word));
    // `https://user:password@host`, `https://token@host`.
    let inside_url = lower.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', ' ', '"', '\'']).next().unwrap_or_default();
        authority.split_once('@').is_some_and(|(user, _)| !user.is_empty())
    });
    named || inside_url
}

const SECRET_WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "private_key",
    "privatekey",
    "access_key",
    "accesskey",
    "api_key",
    "apikey",
    "authorization",
    "-----begin",
];

/// Kernel arguments that are relevant for the fabric.
const ARGUMENTS: &[&str] = &[
    "amd_iommu",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "hugetlb_free_vmemmap",
    "idle",
    "intel_iommu",
    "intel_pstate",
    "amd_pstate",
    "iomem",
    "iommu",
    "iommu.forcedac",
    "iommu.passthrough",
    "iommu.strict",
    "irqaffinity",
    "isolcpus",
    "kthread_cpus",
    "mem_encrypt",
    "mitigations",
    "module_blacklist",
    "nmi_watchdog",
    "nohz",
    "nohz_full",
    "nosmt",
    "numa_balancing",
    "pci",
    "pcie_acs_override",
    "pcie_aspm",
    "pcie_ports",
    "rcu_nocbs",
    "skew_tick",
    "swiotlb",
    "transparent_hugepage",
    "tsc",
];

/// Modules whose parameters are relevant.
const MODULES: &[&str] = &[
    "arm-smmu",
    "bnxt_en",
    "bnxt_re",
    "cpufreq",
    "cpuidle",
    "efa",
    "hfi1",
    "ib_core",
    "ib_ipoib",
    "ib_uverbs",
    "ice",
    "intel_idle",
    "irdma",
    "mlx4_core",
    "mlx4_ib",
    "mlx5_core",
    "mlx5_ib",
    "nvidia",
    "nvidia_peermem",
    "pcie_aspm",
    "processor",
    "rdma_rxe",
    "siw",
    "vfio_iommu_type1",
    "vfio_pci",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(path: &str, text: &str) -> (String, bool) {
        let redacted = redact(path, text.as_bytes().to_vec());
        (String::from_utf8(redacted.bytes).expect("text"), redacted.withheld)
    }

    #[test]
    fn only_relevant_kernel_arguments_are_stored() {
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=17 ro rd.luks.key=/k iommu=pt intel_iommu=on \
                    ib_core.netns_mode=0 ds=nocloud;token=abc isolcpus=2-7 processor.max_cstate=1 quiet\n";
        let (kept, withheld) = redacted("/proc/cmdline", line);
        assert_eq!(
            kept,
            "iommu=pt intel_iommu=on ib_core.netns_mode=0 isolcpus=2-7 processor.max_cstate=1"
        );
        assert!(withheld);
        assert_eq!(redacted("/proc/cmdline", "iommu=pt\n"), ("iommu=pt".to_owned(), false));
    }

    #[test]
    fn settings_that_look_like_secrets_lose_their_value() {
        let file = "NCCL_IB_HCA==mlx5_0:1\nNCCL_NET_TOKEN=abc\nproxy http://me:pw@host/\n";
        let (kept, withheld) = redacted("/etc/nccl.conf", file);
        assert_eq!(kept, "NCCL_IB_HCA==mlx5_0:1\nNCCL_NET_TOKEN=\nproxy\n");
        assert!(withheld);
        assert_eq!(redacted("/etc/hostname", "node-1\n"), ("node-1\n".to_owned(), false));
    }

    #[test]
    fn of_a_pod_only_its_networks_and_of_keys_nothing_is_stored() {
        let file = "k8s.v1.cni.cncf.io/network-status=\"[]\"\nlast-applied=\"{DB_PASS: hunter}\"\n";
        let kept = "k8s.v1.cni.cncf.io/network-status=\"[]\"\n".to_owned();
        assert_eq!(redacted("/etc/podinfo/annotations", file), (kept, true));
        let key = "# mine\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n";
        assert_eq!(redacted("/etc/some.conf", key), (String::new(), true));
        assert!(redact("/etc/some.conf", vec![0xff, 0xfe, b'x']).bytes.is_empty());
        assert!(is_secret("proxy=https://sometoken@host/"));
    }

    #[test]
    fn environments_serial_numbers_and_mounted_secrets_are_never_read() {
        for path in [
            "/proc/1/environ",
            "/sys/class/dmi/id/product_serial",
            "/sys/bus/pci/devices/0000:3b:00.0/vpd",
            "/var/run/secrets/kubernetes.io/serviceaccount/token",
        ] {
            assert!(is_withheld(path), "{path}");
        }
        assert!(!is_withheld("/sys/class/infiniband/mlx5_0/ports/1/pkeys/0"));
    }
}
