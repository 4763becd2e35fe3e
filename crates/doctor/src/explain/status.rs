//! Statuses of completions (`enum ibv_wc_status`).

use serde::Serialize;

use super::ErrorClass;

/// A status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The number in `ibv_wc.status`.
    pub number: u32,
    /// `IBV_WC_RETRY_EXC_ERR`.
    pub name: &'static str,
    /// What happened.
    pub meaning: &'static str,
    #[serde(skip)]
    pub(super) class: ErrorClass,
    /// Descriptions by libibverbs and UCX, in lower case.
    #[serde(skip)]
    words: &'static [&'static str],
    /// The mlx5 syndrome, which UCX and the kernel print.
    #[serde(skip)]
    mlx5: Option<u32>,
}

impl Status {
    pub(super) fn of_number(number: u32) -> Option<&'static Status> {
        TABLE.iter().find(|status| status.number == number)
    }

    pub(super) fn of_mlx5(syndrome: u32) -> Option<&'static Status> {
        TABLE.iter().find(|status| status.mlx5 == Some(syndrome))
    }

    /// The status whose C name is in the line, by libibverbs (`IBV_WC_…`), the kernel (`IB_WC_…`) or without a prefix.
    pub(super) fn named_in(line: &str) -> Option<&'static Status> {
        if !line.contains("_ERR") && !line.contains("WC_") {
            return None;
        }
        let is_outside = |letter: Option<char>| {
            letter.is_none_or(|letter| letter != '_' && !letter.is_ascii_alphanumeric())
        };
        let ends = |name: &str, at: usize| is_outside(line[at + name.len()..].chars().next());
        let has = |name: &str| line.match_indices(name).any(|(at, _)| ends(name, at));
        // RETRY_EXC_ERR is also the end of RNR_RETRY_EXC_ERR.
        let has_bare = |name: &str| {
            let begins = |at: usize| is_outside(line[..at].chars().next_back());
            line.match_indices(name).any(|(at, _)| begins(at) && ends(name, at))
        };
        // SUCCESS or GENERAL_ERR without a prefix is too common.
        let prefixed = |status: &Status| status.name.trim_start_matches("IBV_");
        let bare = |status: &Status| status.name.trim_start_matches("IBV_WC_");
        TABLE.iter().skip(1).find(|status| {
            has(prefixed(status)) || (bare(status).len() > 10 && has_bare(bare(status)))
        })
    }

    /// The status whose description is in the line, which is in lower case and has no underscores.
    pub(super) fn described_in(words: &str) -> Option<&'static Status> {
        TABLE.iter().find(|status| status.words.iter().any(|text| words.contains(text)))
    }
}

const fn row(
    number: u32,
    name: &'static str,
    mlx5: Option<u32>,
    class: ErrorClass,
    words: &'static [&'static str],
    meaning: &'static str,
) -> Status {
    Status { number, name, meaning, class, words, mlx5 }
}

const TABLE: &[Status] = &[
    row(0, "IBV_WC_SUCCESS", None, ErrorClass::Other, &[], "The operation succeeded."),
    row(
        1,
        "IBV_WC_LOC_LEN_ERR",
        Some(0x01),
        ErrorClass::LocalUse,
        &["local length error", "local length on", "local len err"],
        "A message did not fit: the local receive is shorter than the message, or a send is longer \
         than the port allows.",
    ),
    row(
        2,
        "IBV_WC_LOC_QP_OP_ERR",
        Some(0x02),
        ErrorClass::LocalUse,
        &["local qp operation", "local qp op", "loc qp op"],
        "The local queue pair found a work request that it cannot execute.",
    ),
    row(
        3,
        "IBV_WC_LOC_EEC_OP_ERR",
        None,
        ErrorClass::LocalUse,
        &["local ee context operation"],
        "A local end-to-end context failed; only reliable datagrams have them.",
    ),
    row(
        4,
        "IBV_WC_LOC_PROT_ERR",
        Some(0x04),
        ErrorClass::LocalProtection,
        &["local protection", "local prot err", "loc prot"],
        "The NIC could not access local memory: the key, the range, or the path to the memory is \
         wrong.",
    ),
    row(
        5,
        "IBV_WC_WR_FLUSH_ERR",
        Some(0x05),
        ErrorClass::Flushed,
        &[
            "work request flushed",
            "wr flush",
            "wqe flush",
            "flush err",
            "flushed in error",
            "flushed err",
        ],
        "The queue pair had failed before, and its remaining work requests were flushed. The cause \
         is an earlier error, here or at the peer.",
    ),
    row(
        6,
        "IBV_WC_MW_BIND_ERR",
        Some(0x06),
        ErrorClass::LocalUse,
        &["memory management operation", "memory bind operation", "memory window bind", "mw bind"],
        "A memory window could not be bound.",
    ),
    row(
        7,
        "IBV_WC_BAD_RESP_ERR",
        Some(0x10),
        ErrorClass::Other,
        &["bad response"],
        "The peer's response matches no request.",
    ),
    row(
        8,
        "IBV_WC_LOC_ACCESS_ERR",
        Some(0x11),
        ErrorClass::LocalProtection,
        &["local access error", "local access on", "local access err", "loc access err"],
        "Received data could not be written to local memory: it is not registered for that.",
    ),
    row(
        9,
        "IBV_WC_REM_INV_REQ_ERR",
        Some(0x12),
        ErrorClass::RemoteUse,
        &["remote invalid request", "remote invalid rd request", "remote inval", "rem inv req"],
        "The peer's NIC does not support or not allow the request.",
    ),
    row(
        10,
        "IBV_WC_REM_ACCESS_ERR",
        Some(0x13),
        ErrorClass::RemoteAccess,
        &[
            "remote access error",
            "remote memory access error",
            "remote access on",
            "remote access err",
            "rem access err",
        ],
        "The peer's memory does not allow this access: wrong key, range or access rights.",
    ),
    row(
        11,
        "IBV_WC_REM_OP_ERR",
        Some(0x14),
        ErrorClass::RemoteUse,
        &["remote operation err", "remote qp on", "remote op err", "rem op err"],
        "The peer's NIC could not complete the operation.",
    ),
    // Before the next one, whose words it contains.
    row(
        13,
        "IBV_WC_RNR_RETRY_EXC_ERR",
        Some(0x16),
        ErrorClass::NotReady,
        &[
            "rnr retry exc",
            "rnr retry count",
            "rnr retry err",
            "rnr retries",
            "receiver not ready",
            "receive-no-ready",
            "rnr nak",
        ],
        "The peer had no receive posted, until the retries were exhausted.",
    ),
    row(
        12,
        "IBV_WC_RETRY_EXC_ERR",
        Some(0x15),
        ErrorClass::RetryExceeded,
        &[
            "transport retry",
            "retry exceeded error",
            "retry exc err",
            "retry count exceeded",
            "retry counter exceeded",
            "retries exceeded",
        ],
        "The peer did not acknowledge packets after all retries: packets or acknowledgements are \
         lost on the path.",
    ),
    row(
        14,
        "IBV_WC_LOC_RDD_VIOL_ERR",
        None,
        ErrorClass::LocalUse,
        &["local rdd violation"],
        "Reliable datagram domains do not match.",
    ),
    row(
        15,
        "IBV_WC_REM_INV_RD_REQ_ERR",
        None,
        ErrorClass::RemoteUse,
        &["remote invalid rd"],
        "The peer refused a reliable datagram.",
    ),
    row(
        16,
        "IBV_WC_REM_ABORT_ERR",
        Some(0x22),
        ErrorClass::RemoteUse,
        &["aborted error", "remote aborted", "operation aborted"],
        "The peer aborted the operation.",
    ),
    row(
        17,
        "IBV_WC_INV_EECN_ERR",
        None,
        ErrorClass::LocalUse,
        &["invalid ee context number"],
        "An end-to-end context number is wrong.",
    ),
    row(
        18,
        "IBV_WC_INV_EEC_STATE_ERR",
        None,
        ErrorClass::LocalUse,
        &["invalid ee context state"],
        "An end-to-end context is in the wrong state.",
    ),
    row(19, "IBV_WC_FATAL_ERR", None, ErrorClass::NicHealth, &["ibv_wc_fatal"], "The NIC failed."),
    row(
        20,
        "IBV_WC_RESP_TIMEOUT_ERR",
        None,
        ErrorClass::RetryExceeded,
        &["response timeout"],
        "The peer did not respond in time.",
    ),
    row(
        21,
        "IBV_WC_GENERAL_ERR",
        None,
        ErrorClass::Other,
        &["ibv_wc_general", ": general error"],
        "Another error; only the vendor's syndrome has details.",
    ),
    row(
        22,
        "IBV_WC_TM_ERR",
        None,
        ErrorClass::LocalUse,
        &["tag matching error"],
        "Tag matching in the NIC failed.",
    ),
    row(
        23,
        "IBV_WC_TM_RNDV_INCOMPLETE",
        None,
        ErrorClass::LocalUse,
        &["tm rendezvous"],
        "A tag matching rendezvous must be completed in software.",
    ),
];
