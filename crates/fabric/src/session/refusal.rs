//! Why callers are refused, in words and in codes on the wire.

/// Why a listener sent a caller away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// No version of the protocol is spoken by both.
    WrongVersion,
    /// It shows no key, and this listener wants one.
    Unauthenticated,
    /// A key or ticket that is not known, or not the secret that belongs to it.
    WrongKey,
    /// Its first message was seen before: somebody recorded it.
    Replayed,
    /// A field or a hello is longer than allowed.
    Oversized,
    /// It does not keep to the protocol.
    ProtocolError,
    /// As many sessions as allowed are alive.
    TooManySessions,
    /// The listener refused its hello.
    Refused,
    /// The handshake took too long.
    Slow,
    /// It was the oldest of too many unfinished handshakes.
    TooMany,
    /// It hung up within the handshake.
    Truncated,
    /// It speaks something else, and nobody here listens to that.
    NotOurs,
    /// It brings a lane that nobody expects.
    StrayLane,
}

impl Reason {
    /// All of them, for reports.
    pub const ALL: [Reason; 13] = [
        Reason::WrongVersion,
        Reason::Unauthenticated,
        Reason::WrongKey,
        Reason::Replayed,
        Reason::Oversized,
        Reason::ProtocolError,
        Reason::TooManySessions,
        Reason::Refused,
        Reason::Slow,
        Reason::TooMany,
        Reason::Truncated,
        Reason::NotOurs,
        Reason::StrayLane,
    ];

    /// Its name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Reason::WrongVersion => "wrong_version",
            Reason::Unauthenticated => "unauthenticated",
            Reason::WrongKey => "wrong_key",
            Reason::Replayed => "replayed",
            Reason::Oversized => "oversized",
            Reason::ProtocolError => "protocol_error",
            Reason::TooManySessions => "too_many_sessions",
            Reason::Refused => "refused",
            Reason::Slow => "slow",
            Reason::TooMany => "too_many",
            Reason::Truncated => "truncated",
            Reason::NotOurs => "not_ours",
            Reason::StrayLane => "stray_lane",
        }
    }

    /// On the wire; 0 is no refusal. The first ten are sent to the caller, the others have nobody to receive
    /// them.
    pub(super) fn code(self) -> u8 {
        self as u8 + 1
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        let at = usize::from(code).checked_sub(1)?;
        Reason::ALL.get(at).copied()
    }
}

/// Why a listener does not want a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One word for code and metrics, such as `wrong_cluster`.
    pub code: &'static str,
    /// For the person at the other end: why, and what to do. At most 1 KiB arrives.
    pub text: String,
}

/// The listener's word for callers that come when the process behind the listener is about to end.
pub(crate) const SHUTTING_DOWN: &str = "shutting_down";

/// What somebody else says, fit to be shown: not too long, and nothing that moves a terminal's cursor.
pub(super) fn printable(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MAX_TEXT)];
    String::from_utf8_lossy(bytes).chars().filter(|letter| !letter.is_control()).collect()
}

/// As much of a text as is sent, cut between two characters.
pub(super) fn shortened(text: &str) -> &str {
    let ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
    &text[..ends.take_while(|end| *end <= MAX_TEXT).last().unwrap_or(0)]
}

const MAX_TEXT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_what_the_protocol_says() {
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(reason.code()), at + 1, "docs/protocol.md has a table of them");
            assert_eq!(Reason::from_code(reason.code()), Some(reason));
        }
        assert_eq!((Reason::from_code(0), Reason::from_code(14)), (None, None));
    }

    #[test]
    fn texts_are_cut_and_cleaned() {
        assert_eq!(printable(b"go\x1b[2J away\n\xff"), "go[2J away\u{fffd}");
        assert_eq!(printable(&[b'x'; 5000]).len(), 1024);
        let long = "ü".repeat(1000);
        assert_eq!(shortened(&format!("x{long}")).len(), 1023);
        assert_eq!(shortened("short"), "short");
    }
}
