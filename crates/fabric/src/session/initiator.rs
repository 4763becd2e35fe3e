//! The handshake at the dialling end: bytes in, bytes out. It touches no socket.

use std::fmt;

use snow::HandshakeState;

use super::answer::{Answer, NotOurs};
use super::connection::Opened;
use super::dial::Credentials;
use super::framing::{Fault, Framing};
use super::key::{KeyId, Secret};
use super::noise::{FIRST, TAG, initiator};
use super::preface::{Preface, Versions};
use super::refusal::{Reason, SHUTTING_DOWN, printable};
use super::{ANONYMOUS, MAX_MESSAGE};
use crate::error::Kind;

/// One handshake.
pub(super) struct Initiator {
    hello: Vec<u8>,
    identity: String,
    stage: Stage,
}

enum Stage {
    Answer { noise: Option<Box<HandshakeState>>, said: Vec<u8> },
    Hello(Framing),
    Over,
}

/// Why it does not go on: for an error that names the address.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) kind: Kind,
    pub(super) why: String,
    pub(super) fix: &'static str,
}

impl Initiator {
    /// Begins, and appends what is to be sent first.
    pub(super) fn new(
        credentials: &Credentials,
        hello: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Self, Trouble> {
        if hello.len() > MAX_MESSAGE {
            let why = format!("our hello has {} bytes, over the limit", hello.len());
            return Err(Trouble::new(Kind::Misuse, why, "send less: 32 KiB is the limit"));
        }
        let (identity, noise) = match credentials {
            Credentials::None => {
                out.extend(Preface::Plain.to_bytes());
                (ANONYMOUS, None)
            }
            Credentials::Key(key) => (key.name(), Some(greet(key.id(), key.secret(), out)?)),
            Credentials::Ticket(ticket) => (TICKET, Some(greet(ticket.id, &ticket.secret, out)?)),
        };
        let stage = Stage::Answer { noise, said: Vec::new() };
        Ok(Initiator { hello: hello.to_vec(), identity: identity.to_owned(), stage })
    }

    /// Takes bytes of the listener, and appends what is to be sent to it.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Box<Opened>>, Trouble> {
        match &mut self.stage {
            Stage::Answer { said, .. } => {
                said.extend(bytes);
                self.receive_answer(out)?;
            }
            Stage::Hello(framing) => framing.feed(bytes),
            Stage::Over => {}
        }
        self.receive_hello()
    }

    fn receive_answer(&mut self, out: &mut Vec<u8>) -> Result<(), Trouble> {
        let Stage::Answer { noise, said } = &mut self.stage else { return Ok(()) };
        let Some((answer, length)) = Answer::parse(said)? else { return Ok(()) };
        if answer.verdict != 0 {
            return Err(Trouble::refused(answer.verdict, None, &answer.body));
        }
        if !Versions::OURS.contain(answer.chosen) {
            let why = format!(
                "the peer chose version {} of the protocol, we speak {}",
                answer.chosen,
                Versions::OURS
            );
            return Err(Trouble::new(Kind::Unsupported, why, "update the older one"));
        }
        let cipher = match noise.take() {
            Some(noise) => Some(check(*noise, &answer)?),
            None if answer.body.is_empty() => None,
            None => return Err(Trouble::tampered()),
        };
        let mut framing = Framing::new(cipher, MAX_MESSAGE);
        framing.feed(&said[length..]);
        framing.seal(&self.hello, out);
        self.stage = Stage::Hello(framing);
        Ok(())
    }

    fn receive_hello(&mut self) -> Result<Option<Box<Opened>>, Trouble> {
        let Stage::Hello(framing) = &mut self.stage else { return Ok(None) };
        let Some(message) = framing.next()? else { return Ok(None) };
        let hello = match message.split_first() {
            Some((0, hello)) => hello.to_vec(),
            Some((code, rest)) => return Err(Trouble::refused_hello(*code, rest)),
            None => return Err(Fault::ProtocolError("an empty answer to our hello").into()),
        };
        let Stage::Hello(framing) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Ok(None);
        };
        let identity = std::mem::take(&mut self.identity);
        Ok(Some(Box::new(Opened { framing, identity, withdrawals: 0, hello, _place: None })))
    }

    /// What it means that the listener hung up now.
    pub(super) fn hung_up(&self) -> Trouble {
        let why = match self.stage {
            Stage::Answer { .. } => "the peer closed the connection before it answered",
            _ => "the peer closed the connection before it looked at what we say of ourselves",
        };
        let fix = "see the peer's log; it may be stopping, or have too many callers";
        Trouble::new(Kind::Gone, why, fix)
    }
}

fn greet(id: KeyId, secret: &Secret, out: &mut Vec<u8>) -> Result<Box<HandshakeState>, Trouble> {
    let preface = Preface::Noise { key: id }.to_bytes();
    let mut first = [0; FIRST];
    let noise = initiator(secret, &preface).and_then(|mut noise| {
        noise.write_message(&[], &mut first)?;
        Ok(noise)
    });
    let noise = noise.map_err(|error| {
        let fix = "getrandom must be allowed: see the seccomp profile";
        Trouble::new(Kind::System, format!("the handshake could not be made: {error}"), fix)
    })?;
    out.extend(preface);
    out.extend(first);
    Ok(Box::new(noise))
}

/// Whether the peer has our secret, and the answer is its own.
fn check(mut noise: HandshakeState, answer: &Answer) -> Result<snow::TransportState, Trouble> {
    let mut summary = [0; 4 + TAG];
    match noise.read_message(&answer.body, &mut summary) {
        Ok(4) if summary[..4] == answer.summary() => {}
        _ => return Err(Trouble::tampered()),
    }
    noise.into_transport_mode().map_err(|_| Trouble::tampered())
}

impl Trouble {
    pub(super) fn new(kind: Kind, why: impl fmt::Display, fix: &'static str) -> Self {
        Trouble { kind, why: why.to_string(), fix }
    }

    fn tampered() -> Self {
        let why = "the peer does not know our key, or somebody between us changed the handshake";
        let fix = "see that both ends have the same key, and that no proxy stands between";
        Trouble::new(Kind::Denied, why, fix)
    }

    /// What the listener said, which may be of a version that we do not know.
    fn refused(code: u8, word: Option<&[u8]>, text: &[u8]) -> Self {
        let reason = Reason::from_code(code);
        let (kind, fix) = match reason {
            Some(Reason::WrongVersion) => (Kind::Unsupported, "update the older one"),
            Some(Reason::Unauthenticated) => (Kind::Denied, "dial with a key or a ticket"),
            Some(Reason::WrongKey) => (Kind::Denied, "give both ends the same key"),
            Some(Reason::Oversized) => (Kind::Misuse, "send a smaller hello, or raise its limit"),
            Some(Reason::TooManySessions | Reason::TooMany) => (Kind::Full, "dial again later"),
            Some(Reason::Refused) if word == Some(SHUTTING_DOWN.as_bytes()) => {
                (Kind::Gone, "dial another one, or later")
            }
            Some(Reason::Slow) => (Kind::Gone, "dial again, or give its handshakes more time"),
            _ => (Kind::Denied, "see the peer's log"),
        };
        let word = match (word, reason) {
            (Some(word), _) => printable(word),
            (None, Some(reason)) => reason.name().to_owned(),
            (None, None) => format!("code {code}"),
        };
        Trouble::new(kind, format!("the peer refuses ({word}): {}", printable(text)), fix)
    }

    fn refused_hello(code: u8, rest: &[u8]) -> Self {
        let parts = rest
            .split_first()
            .and_then(|(length, rest)| rest.split_at_checked(usize::from(*length)));
        let (word, text) = parts.unwrap_or_default();
        Trouble::refused(code, Some(word), text)
    }
}

impl From<NotOurs> for Trouble {
    fn from(_: NotOurs) -> Self {
        let why = "something else than Wirelane answers there";
        Trouble::new(Kind::Misuse, why, "see that the port is right")
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        let fix = "see that both ends have the same key and run versions that know each other";
        Trouble::new(Kind::Denied, format!("the peer sent {fault}"), fix)
    }
}

/// Whom a ticket means, only the peer knows who issued it.
const TICKET: &str = "ticket";
