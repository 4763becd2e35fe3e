//! The handshake at the initiator: bytes in, bytes out, without sockets.

use std::fmt;

use snow::HandshakeState;

use super::answer::{Answer, UnknownProtocol};
use super::connect::Credentials;
use super::connection::HandshakeResult;
use super::framing::{Framing, FramingError};
use super::key::{KeyId, Secret};
use super::noise::{FIRST_MESSAGE_BYTES, TAG_BYTES, initiator};
use super::preface::{Preface, Versions};
use super::refusal::{Reason, SHUTTING_DOWN, printable};
use super::{ANONYMOUS, MAX_MESSAGE};
use crate::error::ErrorKind;

/// A handshake at the initiator's end.
pub(super) struct InitiatorHandshake {
    hello: Vec<u8>,
    identity: String,
    stage: Stage,
}

enum Stage {
    Answer { noise: Option<Box<HandshakeState>>, received: Vec<u8> },
    Hello(Framing),
    Done,
}

/// Why a handshake failed; the caller adds the address.
#[derive(Debug)]
pub(super) struct HandshakeError {
    pub(super) kind: ErrorKind,
    pub(super) why: String,
    pub(super) fix: &'static str,
    /// The listener's reason, if it refused this end.
    pub(super) refusal: Option<Reason>,
}

impl InitiatorHandshake {
    /// Starts a handshake, and appends the first bytes to send.
    pub(super) fn new(
        credentials: &Credentials,
        hello: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Self, HandshakeError> {
        if hello.len() > MAX_MESSAGE {
            let why =
                format!("our hello has {} bytes, over the limit of {MAX_MESSAGE}", hello.len());
            return Err(HandshakeError::new(
                ErrorKind::Misuse,
                why,
                "send a smaller hello: listeners accept 32 KiB by default",
            ));
        }
        let (identity, noise) = match credentials {
            Credentials::None => {
                out.extend(Preface::Plain.to_bytes());
                (ANONYMOUS, None)
            }
            Credentials::Key(key) => (key.name(), Some(start_noise(key.id(), key.secret(), out)?)),
            Credentials::Ticket(ticket) => {
                (TICKET, Some(start_noise(ticket.id, &ticket.secret, out)?))
            }
        };
        let stage = Stage::Answer { noise, received: Vec::new() };
        Ok(InitiatorHandshake { hello: hello.to_vec(), identity: identity.to_owned(), stage })
    }

    /// Takes bytes from the listener, and appends bytes to send to it.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Box<HandshakeResult>>, HandshakeError> {
        match &mut self.stage {
            Stage::Answer { received, .. } => {
                received.extend(bytes);
                self.receive_answer(out)?;
            }
            Stage::Hello(framing) => framing.feed(bytes),
            Stage::Done => {}
        }
        self.receive_hello()
    }

    fn receive_answer(&mut self, out: &mut Vec<u8>) -> Result<(), HandshakeError> {
        let Stage::Answer { noise, received } = &mut self.stage else { return Ok(()) };
        let Some((answer, length)) = Answer::parse(received)? else { return Ok(()) };
        if answer.verdict != 0 {
            return Err(HandshakeError::refused(answer.verdict, None, &answer.body));
        }
        if !Versions::OURS.contains(answer.chosen) {
            let why = format!(
                "the peer chose protocol version {}, this end supports {}",
                answer.chosen,
                Versions::OURS
            );
            return Err(HandshakeError::new(ErrorKind::Unsupported, why, "update the older end"));
        }
        let cipher = match noise.take() {
            Some(noise) => Some(verify_answer(*noise, &answer)?),
            None if answer.body.is_empty() => None,
            None => return Err(HandshakeError::tampered()),
        };
        let mut framing = Framing::new(cipher, MAX_MESSAGE);
        framing.feed(&received[length..]);
        framing.seal(&self.hello, out);
        self.stage = Stage::Hello(framing);
        Ok(())
    }

    fn receive_hello(&mut self) -> Result<Option<Box<HandshakeResult>>, HandshakeError> {
        let Stage::Hello(framing) = &mut self.stage else { return Ok(None) };
        let Some(message) = framing.next()? else { return Ok(None) };
        let hello = match message.split_first() {
            Some((0, hello)) => hello.to_vec(),
            Some((code, rest)) => return Err(HandshakeError::refused_hello(*code, rest)),
            None => return Err(FramingError::ProtocolError("an empty answer to our hello").into()),
        };
        let Stage::Hello(framing) = std::mem::replace(&mut self.stage, Stage::Done) else {
            return Ok(None);
        };
        let identity = std::mem::take(&mut self.identity);
        Ok(Some(Box::new(HandshakeResult {
            framing,
            identity,
            revocations: 0,
            hello,
            _permit: None,
        })))
    }

    /// The error if the listener closes the connection now.
    pub(super) fn hung_up(&self) -> HandshakeError {
        let why = match self.stage {
            Stage::Answer { .. } => "the peer closed the connection before it answered",
            _ => "the peer closed the connection before it answered our hello",
        };
        let fix = "see the peer's log; it may be shutting down, or have too many connections";
        HandshakeError::new(ErrorKind::Gone, why, fix)
    }
}

fn start_noise(
    id: KeyId,
    secret: &Secret,
    out: &mut Vec<u8>,
) -> Result<Box<HandshakeState>, HandshakeError> {
    let preface = Preface::Noise { key: id }.to_bytes();
    let mut first = [0; FIRST_MESSAGE_BYTES];
    let noise = initiator(secret, &preface).and_then(|mut noise| {
        noise.write_message(&[], &mut first)?;
        Ok(noise)
    });
    let noise = noise.map_err(|error| {
        let fix = "allow getrandom in the seccomp profile";
        HandshakeError::new(ErrorKind::System, format!("cannot start the handshake: {error}"), fix)
    })?;
    out.extend(preface);
    out.extend(first);
    Ok(Box::new(noise))
}

/// Checks that the peer has our secret, and that the answer was not changed in transit.
fn verify_answer(
    mut noise: HandshakeState,
    answer: &Answer,
) -> Result<snow::TransportState, HandshakeError> {
    let mut summary = [0; 4 + TAG_BYTES];
    match noise.read_message(&answer.body, &mut summary) {
        Ok(4) if summary[..4] == answer.summary() => {}
        _ => return Err(HandshakeError::tampered()),
    }
    noise.into_transport_mode().map_err(|_| HandshakeError::tampered())
}

impl HandshakeError {
    pub(super) fn new(kind: ErrorKind, why: impl fmt::Display, fix: &'static str) -> Self {
        HandshakeError { kind, why: why.to_string(), fix, refusal: None }
    }

    fn tampered() -> Self {
        let why = "the peer does not have our key, or the handshake was changed in transit";
        let fix = "check that both ends have the same key, and that no proxy is in between";
        HandshakeError::new(ErrorKind::Denied, why, fix)
    }

    /// The listener's refusal, which may be of a newer version.
    fn refused(code: u8, word: Option<&[u8]>, text: &[u8]) -> Self {
        let reason = Reason::from_code(code);
        let (kind, fix) = match reason {
            Some(Reason::WrongVersion) => (ErrorKind::Unsupported, "update the older end"),
            Some(Reason::Unauthenticated) => {
                (ErrorKind::Denied, "connect with a key, a token or a ticket")
            }
            Some(Reason::WrongKey) => {
                (ErrorKind::Denied, "use a key or token that the peer has, or a new ticket")
            }
            Some(Reason::NoAuthentication) => (ErrorKind::Denied, "connect without credentials"),
            Some(Reason::Oversized) => {
                (ErrorKind::Misuse, "send a smaller hello, or raise the peer's limit")
            }
            Some(Reason::TooManySessions | Reason::TooMany) => {
                (ErrorKind::Full, "connect again later")
            }
            Some(Reason::Refused) if word == Some(SHUTTING_DOWN.as_bytes()) => {
                (ErrorKind::Gone, "connect to another peer, or later")
            }
            Some(Reason::Slow) => {
                (ErrorKind::Gone, "connect again, or raise the peer's handshake timeout")
            }
            _ => (ErrorKind::Denied, "see the peer's log"),
        };
        let word = match (word, reason) {
            (Some(word), _) => printable(word),
            (None, Some(reason)) => reason.name().to_owned(),
            (None, None) => format!("code {code}"),
        };
        let why = format!("refused by the peer ({word}): {}", printable(text));
        HandshakeError { refusal: reason, ..HandshakeError::new(kind, why, fix) }
    }

    fn refused_hello(code: u8, rest: &[u8]) -> Self {
        let parts = rest
            .split_first()
            .and_then(|(length, rest)| rest.split_at_checked(usize::from(*length)));
        let (word, text) = parts.unwrap_or_default();
        HandshakeError::refused(code, Some(word), text)
    }
}

impl From<UnknownProtocol> for HandshakeError {
    fn from(_: UnknownProtocol) -> Self {
        let why = "not a Wirelane peer: it answers with another protocol";
        HandshakeError::new(ErrorKind::Misuse, why, "check the port")
    }
}

impl From<FramingError> for HandshakeError {
    fn from(error: FramingError) -> Self {
        let fix = "check that both ends have the same key and run compatible versions";
        HandshakeError::new(ErrorKind::Denied, format!("the peer sent {error}"), fix)
    }
}

/// The identity of a ticket, which only its issuer knows.
const TICKET: &str = "ticket";
