//! Which program printed a line.

use serde::Serialize;

/// The program that printed a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "names of programs")]
pub enum Source {
    Nccl,
    Ucx,
    Libfabric,
    Perftest,
    Kernel,
    Wirelane,
    /// A program that uses verbs.
    Verbs,
}

/// The program, recognized by words that only it uses.
pub(super) fn detect(line: &str) -> Source {
    let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
    match () {
        () if line.trim_start().starts_with("wirelane") => Source::Wirelane,
        () if has(&["libfabric", "NET/OFI", "prov_errno", "fi_cq_", "efa_rdm"]) => {
            Source::Libfabric
        }
        () if has(&["NCCL", "NET/IB", "NET/Socket", "ibvwrap", "RCCL"]) => Source::Nccl,
        () if has(&["UCX", "ib_mlx5_log", "hw_synd", "(synd 0x", "uct_", "ucp_"]) => Source::Ucx,
        () if has(&[
            "syndrom 0x",
            "Completion with error at",
            "Couldn't ",
            "Unable to init the socket",
            "Unable to find the I",
        ]) =>
        {
            Source::Perftest
        }
        () if has(&[
            "mlx5_core",
            "mlx4_core",
            "mlx5_poll_one",
            "NVRM",
            "DMAR",
            "AMD-Vi",
            "arm-smmu",
            "AER:",
            "DPC:",
            "pcieport",
            "infiniband ",
        ]) =>
        {
            Source::Kernel
        }
        () => Source::Verbs,
    }
}

impl Source {
    /// The name in text.
    pub fn name(self) -> &'static str {
        match self {
            Source::Nccl => "NCCL",
            Source::Ucx => "UCX",
            Source::Libfabric => "libfabric",
            Source::Perftest => "perftest",
            Source::Kernel => "the kernel",
            Source::Wirelane => "Wirelane",
            Source::Verbs => "a program that uses verbs",
        }
    }
}
