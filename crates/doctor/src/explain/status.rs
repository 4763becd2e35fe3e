//! Statuses of completions (`enum ibv_wc_status`).

use serde::Serialize;

use super::Subject;

/// A status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Status {
    /// As `ibv_poll_cq` has it.
    pub number: u32,
    /// `IBV_WC_RETRY_EXC_ERR`.
    pub name: &'static str,
    /// What happened.
    pub meaning: &'static str,
    #[serde(skip)]
    pub(super) subject: Subject,
    /// As libibverbs and UCX write it in words, in small letters.
    #[serde(skip)]
    words: &'static [&'static str],
    /// As the card of mlx5 numbers it, which UCX and the kernel print.
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

    /// The status whose C name is in the line.
    pub(super) fn named_in(line: &str) -> Option<&'static Status> {
        let whole_word = |name: &str| {
            line.match_indices(name).any(|(at, _)| {
                let next = line[at + name.len()..].chars().next();
                next.is_none_or(|letter| letter != '_' && !letter.is_ascii_alphanumeric())
            })
        };
        // The prefix may be missing; a bare SUCCESS or GENERAL_ERR is too common a word.
        let bare = |status: &Status| status.name.trim_start_matches("IBV_WC_");
        TABLE.iter().skip(1).find(|status| {
            whole_word(status.name) || (bare(status).len() > 10 && whole_word(bare(status)))
        })
    }

    /// The status whose words are in the line, which is in small letters.
    pub(super) fn worded_in(lower: &str) -> Option<&'static Status> {
        TABLE.iter().find(|status| status.words.iter().any(|words| lower.contains(words)))
    }
}

const fn row(
    number: u32,
    name: &'static str,
    mlx5: Option<u32>,
    subject: Subject,
    words: &'static [&'static str],
    meaning: &'static str,
) -> Status {
    Status { number, name, meaning, subject, words, mlx5 }
}

const TABLE: &[Status] = &[
    row(0, "IBV_WC_SUCCESS", None, Subject::Other, &[], "The operation succeeded."),
    row(
        1,
        "IBV_WC_LOC_LEN_ERR",
        Some(0x01),
        Subject::LocalUse,
        &["local length error", "local length"],
        "A message did not fit: the receive posted here is shorter than what came, or a send is \
         longer than the port allows.",
    ),
    row(
        2,
        "IBV_WC_LOC_QP_OP_ERR",
        Some(0x02),
        Subject::LocalUse,
        &["local qp operation"],
        "This end's queue pair found a work request that it cannot execute.",
    ),
    row(
        3,
        "IBV_WC_LOC_EEC_OP_ERR",
        None,
        Subject::LocalUse,
        &["local ee context operation"],
        "An end-to-end context failed here; only reliable datagrams have such.",
    ),
    row(
        4,
        "IBV_WC_LOC_PROT_ERR",
        Some(0x04),
        Subject::LocalProtection,
        &["local protection"],
        "The card could not read or write memory at this end: the key, the range, or the path to \
         the memory is wrong.",
    ),
    row(
        5,
        "IBV_WC_WR_FLUSH_ERR",
        Some(0x05),
        Subject::Flushed,
        &["work request flushed", "wr flush"],
        "The queue pair had failed before; this one was thrown away with it. It follows from an \
         earlier error, here or at the peer.",
    ),
    row(
        6,
        "IBV_WC_MW_BIND_ERR",
        Some(0x06),
        Subject::LocalUse,
        &["memory management operation", "memory bind", "memory window bind"],
        "A memory window could not be bound.",
    ),
    row(
        7,
        "IBV_WC_BAD_RESP_ERR",
        Some(0x10),
        Subject::Other,
        &["bad response"],
        "The peer answered with something that fits no request.",
    ),
    row(
        8,
        "IBV_WC_LOC_ACCESS_ERR",
        Some(0x11),
        Subject::LocalProtection,
        &["local access error", "local access"],
        "What came could not be written at this end: memory is not registered for it.",
    ),
    row(
        9,
        "IBV_WC_REM_INV_REQ_ERR",
        Some(0x12),
        Subject::RemoteUse,
        &["remote invalid request", "remote invalid rd request", "remote inval"],
        "The peer's card did not understand or not allow the request.",
    ),
    row(
        10,
        "IBV_WC_REM_ACCESS_ERR",
        Some(0x13),
        Subject::RemoteAccess,
        &["remote access"],
        "The peer's memory may not be reached so: wrong key, range or rights there.",
    ),
    row(
        11,
        "IBV_WC_REM_OP_ERR",
        Some(0x14),
        Subject::RemoteUse,
        &["remote operation error", "remote qp", "remote op"],
        "The peer's card could not finish the operation.",
    ),
    row(
        12,
        "IBV_WC_RETRY_EXC_ERR",
        Some(0x15),
        Subject::RetryExceeded,
        &["transport retry count", "transport retry exceeded"],
        "The peer did not answer, however often it was asked: packets or answers are lost on the \
         way.",
    ),
    row(
        13,
        "IBV_WC_RNR_RETRY_EXC_ERR",
        Some(0x16),
        Subject::NotReady,
        &["rnr retry", "receiver not ready"],
        "The peer answered that it had no receive posted, until this end gave up.",
    ),
    row(
        14,
        "IBV_WC_LOC_RDD_VIOL_ERR",
        None,
        Subject::LocalUse,
        &["local rdd violation"],
        "Reliable datagram domains do not fit.",
    ),
    row(
        15,
        "IBV_WC_REM_INV_RD_REQ_ERR",
        None,
        Subject::RemoteUse,
        &["remote invalid rd"],
        "The peer refused a reliable datagram.",
    ),
    row(
        16,
        "IBV_WC_REM_ABORT_ERR",
        Some(0x22),
        Subject::RemoteUse,
        &["aborted error", "remote aborted", "operation aborted"],
        "The peer gave the operation up.",
    ),
    row(
        17,
        "IBV_WC_INV_EECN_ERR",
        None,
        Subject::LocalUse,
        &["invalid ee context number"],
        "An end-to-end context number is wrong.",
    ),
    row(
        18,
        "IBV_WC_INV_EEC_STATE_ERR",
        None,
        Subject::LocalUse,
        &["invalid ee context state"],
        "An end-to-end context is in the wrong state.",
    ),
    row(19, "IBV_WC_FATAL_ERR", None, Subject::CardHealth, &["ibv_wc_fatal"], "The card failed."),
    row(
        20,
        "IBV_WC_RESP_TIMEOUT_ERR",
        None,
        Subject::RetryExceeded,
        &["response timeout"],
        "The peer did not answer in time.",
    ),
    row(
        21,
        "IBV_WC_GENERAL_ERR",
        None,
        Subject::Other,
        &["ibv_wc_general"],
        "Something else went wrong; the vendor's syndrome is all that is told.",
    ),
    row(
        22,
        "IBV_WC_TM_ERR",
        None,
        Subject::LocalUse,
        &["tag matching error"],
        "Tag matching in the card failed.",
    ),
    row(
        23,
        "IBV_WC_TM_RNDV_INCOMPLETE",
        None,
        Subject::LocalUse,
        &["tm rendezvous"],
        "A rendezvous by tag matching must be finished by software.",
    ),
];
