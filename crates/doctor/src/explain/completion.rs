//! Finds the status and syndrome of a completion in a line.

use serde::Serialize;

use super::scan::{Number, has_word_start, number_after};
use super::{Status, Syndrome};

/// A completion that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Completion {
    /// The verbs status.
    pub status: Status,
    /// The vendor's syndrome.
    pub vendor: Option<Syndrome>,
    /// The device, if the line names it.
    pub device: Option<String>,
}

/// The failed completion that a line reports; `lower` is the line in lower case.
pub(super) fn read(line: &str, lower: &str) -> Option<Completion> {
    let status = *status(line, lower)?;
    if status.number == 0 {
        return None;
    }
    let vendor = vendor(lower).map(Syndrome::new);
    Some(Completion { status, vendor, device: device(line) })
}

/// By its C name, by the mlx5 syndrome that UCX and the kernel print, by number, by words.
fn status(line: &str, lower: &str) -> Option<&'static Status> {
    Status::named_in(line)
        .or_else(|| by_mlx5(lower))
        .or_else(|| by_libfabric(lower))
        .or_else(|| by_number(lower))
        .or_else(|| described(lower))
}

/// Drivers print the words of a status with spaces or underscores.
fn described(lower: &str) -> Option<&'static Status> {
    // Most lines have none of these, and need no search for all descriptions.
    if !["err", "exceed", "flush", "local", "remote", "retry", "rnr", "not ready", "response"]
        .iter()
        .any(|word| lower.contains(word))
    {
        return None;
    }
    Status::described_in(&lower.replace('_', " ")).filter(|_| is_about_verbs(lower))
}

fn by_mlx5(lower: &str) -> Option<&'static Status> {
    let has_both = ["vendor syndrome", "vendor_err_synd"].iter().any(|word| lower.contains(word));
    let number =
        if has_both { number_after(lower, "syndrome")? } else { number_after(lower, "(synd")? };
    Status::of_mlx5(number.value)
}

/// libfabric's verbs provider reports the status as `prov_errno`, and a flushed request as canceled. Numbers of its
/// EFA provider are its own.
fn by_libfabric(lower: &str) -> Option<&'static Status> {
    let is_verbs = ["verbs", "rxm", "operation canceled"].iter().any(|word| lower.contains(word));
    let number = number_after(lower, "prov_errno")?;
    if is_verbs && !has_word_start(lower, "efa") { Status::of_number(number.value) } else { None }
}

fn by_number(lower: &str) -> Option<&'static Status> {
    // A number alone is not enough: many programs print a status.
    let is_completion = has_any(lower, COMPLETION_WORDS)
        || (lower.contains("completion") && has_any(lower, &["mlx", "opcode", "qp_num", "qpn"]));
    if !is_completion {
        return None;
    }
    let words =
        ["failed status", "status number", "state error", "with status", "status", "with error"];
    let number = words.iter().find_map(|word| number_after(lower, word))?;
    Status::of_number(number.value)
}

/// Also in names like `rpcrdma`.
fn is_about_verbs(lower: &str) -> bool {
    lower.contains("rdma") || has_any(lower, VERBS_WORDS)
}

fn has_any(lower: &str, words: &[&str]) -> bool {
    words.iter().any(|word| has_word_start(lower, word))
}

/// Words that appear next to a status only in completions.
const COMPLETION_WORDS: &[&str] = &[
    "syndrom",
    "synd ",
    "vendor err",
    "vendor_err",
    "vend_err",
    "vendor code",
    "wr_id",
    "wrid",
    "wr id",
    "wc.status",
    "wc->status",
    "wc status",
    "work completion",
    "cq completion",
    "completion with error",
    "poll_cq",
    "poll cq",
    "cqe",
    "ibv_wc",
    "wc[",
    "ib failure",
    "net/ib",
];
/// Without one of these words, `remote access` or `response timeout` is not about verbs.
const VERBS_WORDS: &[&str] = &[
    "completion error",
    "cq",
    "flush",
    "ibv",
    "infiniband",
    "local protection",
    "lkey",
    "mlx",
    "nccl",
    "net/ib",
    "openib",
    "btl_openib",
    "qp",
    "opcode",
    "retry count",
    "rkey",
    "rnr",
    "synd",
    "transport retry",
    "ucx",
    "verbs",
    "wc_",
    "work request",
    "wr_id",
];

fn vendor(lower: &str) -> Option<Number> {
    let words = [
        "vendor_err",
        "vendor err",
        "vend_err",
        "vendor code",
        "vendor syndrome",
        "vend ",
        "vendor_error",
        "vendor error",
        "vendor_err_synd",
        "syndrom ",
        "syndrome ",
    ];
    words.iter().find_map(|word| number_after(lower, word))
}

/// `hca mlx5_1`, `on mlx5_0:1/RoCE`, `on dev mlx5_0:1`.
fn device(line: &str) -> Option<String> {
    let words = ["hca ", " on dev ", " on "];
    let name = words.iter().find_map(|word| {
        let rest = line.rsplit_once(word)?.1;
        let end = rest
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(rest.len());
        let name = &rest[..end];
        (name.len() <= 64 && name.chars().any(|letter| letter.is_ascii_digit())).then_some(name)
    });
    name.map(str::to_owned)
}

impl Completion {
    pub(super) fn title(&self) -> String {
        let Status { name, number, .. } = self.status;
        match &self.vendor {
            Some(Syndrome { decimal, hex, .. }) => {
                format!("{name} ({number}), vendor error {decimal} = {hex}")
            }
            None => format!("{name} ({number})"),
        }
    }

    pub(super) fn meaning(&self) -> Vec<String> {
        let mut meaning = vec![self.status.meaning.to_owned()];
        if let Some(vendor) = &self.vendor {
            if let Some(words) = vendor.meaning {
                meaning.push(format!("On mlx4 and mlx5 NICs {} means: {words}.", vendor.hex));
            }
            meaning.extend(vendor.common_mistake().map(str::to_owned));
        }
        meaning
    }
}
