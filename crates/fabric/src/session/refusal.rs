//! Reasons for refusing initiators, with their names and codes on the wire.

/// Why a listener refused an initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// There is no protocol version that both ends support.
    WrongVersion,
    /// The initiator has no key or ticket, and the listener requires one.
    Unauthenticated,
    /// An unknown key or ticket, or a wrong secret.
    WrongKey,
    /// The first message was seen before.
    Replayed,
    /// A field or a hello is too long.
    Oversized,
    /// The initiator violated the protocol.
    ProtocolError,
    /// The limit of open sessions is reached.
    TooManySessions,
    /// The hello was refused by the listener's check.
    Refused,
    /// The handshake took too long.
    Slow,
    /// It was the oldest of too many unfinished handshakes.
    TooMany,
    /// The initiator closed the connection during the handshake.
    Truncated,
    /// The connection uses another protocol, and there is no handler for it.
    UnknownProtocol,
    /// The stream of a lane that is not expected.
    UnexpectedStream,
    /// The initiator has a key or a ticket, and the listener has none and requires none.
    NoAuthentication,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 14] = [
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
        Reason::UnknownProtocol,
        Reason::UnexpectedStream,
        Reason::NoAuthentication,
    ];

    /// The name in metrics and logs.
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
            Reason::UnknownProtocol => "unknown_protocol",
            Reason::UnexpectedStream => "unexpected_stream",
            Reason::NoAuthentication => "no_authentication",
        }
    }

    /// The code on the wire; 0 is not a refusal. Only the first ten and the last are sent to
    /// initiators.
    pub(super) fn code(self) -> u8 {
        self as u8 + 1
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        let at = usize::from(code).checked_sub(1)?;
        Reason::ALL.get(at).copied()
    }
}

/// The refusal of a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One word for code and metrics, such as `wrong_cluster`.
    pub code: &'static str,
    /// A text for the user at the other end: the reason, and what to do. At most 1 KiB is sent.
    pub text: String,
}

/// The code for initiators that connect while the process shuts down.
pub(crate) const SHUTTING_DOWN: &str = "shutting_down";

/// A text from the peer for display: limited in length, without control characters and those that change the direction of text.
pub(super) fn printable(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MAX_TEXT)];
    let is_shown = |letter: &char| {
        !letter.is_control()
            && !matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    String::from_utf8_lossy(bytes).chars().filter(is_shown).collect()
}

/// A text cut to the maximum length, between two characters.
pub(super) fn shortened(text: &str) -> &str {
    let ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
    &text[..ends.take_while(|end| *end <= MAX_TEXT).last().unwrap_or(0)]
}

const MAX_TEXT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_protocol() {
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(reason.code()), at + 1, "docs/protocol.md has a table of them");
            assert_eq!(Reason::from_code(reason.code()), Some(reason));
        }
        assert_eq!((Reason::from_code(0), Reason::from_code(15)), (None, None));
    }

    #[test]
    fn texts_are_cut_and_control_characters_removed() {
        assert_eq!(printable(b"go\x1b[2J away\n\xff"), "go[2J away\u{fffd}");
        assert_eq!(printable("a\u{202e}b\u{2066}\u{61c}".as_bytes()), "ab");
        assert_eq!(printable(&[b'x'; 5000]).len(), 1024);
        let long = "ü".repeat(1000);
        assert_eq!(shortened(&format!("x{long}")).len(), 1023);
        assert_eq!(shortened("short"), "short");
    }
}
