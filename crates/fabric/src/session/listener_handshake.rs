//! The handshake at the listener's end: bytes and the time in, bytes out, without sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::answer::Answer;
use super::connection::HandshakeResult;
use super::framing::{Framing, FramingError};
use super::key::{KeyId, Secret};
use super::keyring::FoundSecret;
use super::listener::{InitiatorInfo, ListenerConfig};
use super::noise::{EPHEMERAL_BYTES, TAG_BYTES, listener};
use super::preface::{BadPreface, MAGIC, PREFACE_BYTES, Preface, Versions, versions};
use super::refusal::{Reason, Refusal, shortened};
use super::ticket::random_secret;
use super::{ANONYMOUS, MAX_MESSAGE};
use crate::error::Error;

/// What all handshakes of a listener share.
pub(super) struct HandshakeContext {
    pub(super) config: ListenerConfig,
    pub(super) alive: Arc<AtomicUsize>,
    /// Used for unknown keys, so that they take as long as wrong secrets.
    decoy: Secret,
}

/// A handshake at the listener's end.
pub(super) struct ListenerHandshake {
    context: Arc<HandshakeContext>,
    address: SocketAddr,
    stage: Stage,
}

enum Stage {
    Preface(Vec<u8>),
    Hello(Box<PendingInitiator>),
    Done,
}

/// An initiator whose preface was accepted.
struct PendingInitiator {
    framing: Framing,
    identity: String,
    revocations: u64,
    ticket: Option<KeyId>,
}

/// The state after a step.
pub(super) enum HandshakeStep {
    /// More bytes are needed.
    More,
    Open(Box<HandshakeResult>),
    Refused(HandshakeRefusal),
}

/// Why an initiator is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HandshakeRefusal {
    pub(super) reason: Reason,
    /// The code of the listener's check.
    pub(super) code: Option<&'static str>,
    text: String,
}

impl HandshakeContext {
    pub(super) fn new(mut config: ListenerConfig) -> Result<Arc<Self>, Error> {
        config.max_hello = config.max_hello.min(MAX_MESSAGE);
        let alive = Arc::new(AtomicUsize::new(0));
        Ok(Arc::new(HandshakeContext { config, alive, decoy: random_secret()? }))
    }
}

impl ListenerHandshake {
    pub(super) fn new(context: &Arc<HandshakeContext>, address: SocketAddr) -> Self {
        ListenerHandshake {
            context: Arc::clone(context),
            address,
            stage: Stage::Preface(Vec::new()),
        }
    }

    /// Takes bytes from the initiator, and appends bytes to send to it, including a refusal.
    pub(super) fn take(&mut self, bytes: &[u8], now: Instant, out: &mut Vec<u8>) -> HandshakeStep {
        let step = match &mut self.stage {
            Stage::Preface(received) => {
                received.extend(bytes);
                self.check_preface(now, out).and_then(|()| self.check_hello(now, out))
            }
            Stage::Hello(pending) => {
                pending.framing.feed(bytes);
                self.check_hello(now, out)
            }
            Stage::Done => Ok(None),
        };
        match step {
            Ok(None) => HandshakeStep::More,
            Ok(Some(opened)) => HandshakeStep::Open(opened),
            Err(refusal) => {
                self.refuse(&refusal, out);
                HandshakeStep::Refused(refusal)
            }
        }
    }

    /// Appends a refusal, in the form that the initiator expects at this stage.
    pub(super) fn refuse(&mut self, refusal: &HandshakeRefusal, out: &mut Vec<u8>) {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Preface(_) => {
                out.extend(Answer::refuse(refusal.reason, &refusal.text).to_bytes())
            }
            Stage::Hello(mut pending) => pending.framing.seal(&refusal.to_message(), out),
            Stage::Done => {}
        }
    }

    fn check_preface(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<(), HandshakeRefusal> {
        let Stage::Preface(received) = &self.stage else { return Ok(()) };
        if !received.iter().zip(MAGIC).all(|(theirs, ours)| theirs == ours) {
            return Err(HandshakeRefusal::new(
                Reason::UnknownProtocol,
                "this listener accepts only the Wirelane protocol",
            ));
        }
        let Some(theirs) = versions(received) else { return Ok(()) };
        let chosen = choose(theirs)?;
        let Some((head, rest)) = received.split_first_chunk::<PREFACE_BYTES>() else {
            return Ok(());
        };
        let preface = Preface::parse(head)?;
        if preface == Preface::Plain && self.context.config.require_authentication {
            return Err(HandshakeRefusal::new(Reason::Unauthenticated, "authentication required"));
        }
        let Some((first, rest)) = rest.split_at_checked(preface.noise_length()) else {
            return Ok(());
        };
        let mut pending = match preface {
            Preface::Plain => self.accept_anonymous(chosen, out),
            Preface::Noise { key } => self.authenticate(key, head, first, chosen, now, out)?,
        };
        pending.framing.feed(rest);
        self.stage = Stage::Hello(Box::new(pending));
        Ok(())
    }

    fn accept_anonymous(&self, chosen: u8, out: &mut Vec<u8>) -> PendingInitiator {
        out.extend(Answer::accept(chosen, Vec::new()).to_bytes());
        let framing = Framing::new(None, self.context.config.max_hello);
        let revocations = self.context.config.keyring.revocations();
        PendingInitiator { framing, identity: ANONYMOUS.to_owned(), revocations, ticket: None }
    }

    fn authenticate(
        &self,
        id: KeyId,
        head: &[u8; PREFACE_BYTES],
        first: &[u8],
        chosen: u8,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<PendingInitiator, HandshakeRefusal> {
        let keyring = &self.context.config.keyring;
        let found = keyring.find(&id, now);
        let secret = found.as_ref().map_or(&self.context.decoy, |found| &found.secret);
        let mut noise = listener(secret, head).map_err(|_| HandshakeRefusal::failed())?;
        let opened = noise.read_message(first, &mut [0; TAG_BYTES]);
        let (Ok(_), Some(FoundSecret { identity, single_use, revocations, .. })) = (opened, found)
        else {
            return Err(self.refuse_key());
        };
        let ephemeral: &[u8; EPHEMERAL_BYTES] =
            first.first_chunk().ok_or_else(HandshakeRefusal::failed)?;
        if !keyring.remember_ephemeral(*ephemeral) {
            let text = "replayed handshake: it was recorded, or a proxy repeats it";
            return Err(HandshakeRefusal::new(Reason::Replayed, text));
        }
        let mut answer = Answer::accept(chosen, vec![0; EPHEMERAL_BYTES + 4 + TAG_BYTES]);
        let summary = answer.summary();
        noise.write_message(&summary, &mut answer.body).map_err(|_| HandshakeRefusal::failed())?;
        let cipher = noise.into_transport_mode().map_err(|_| HandshakeRefusal::failed())?;
        out.extend(answer.to_bytes());
        let framing = Framing::new(Some(cipher), self.context.config.max_hello);
        Ok(PendingInitiator { framing, identity, revocations, ticket: single_use.then_some(id) })
    }

    /// The same for an unknown key and a wrong secret, so that neither is revealed.
    fn refuse_key(&self) -> HandshakeRefusal {
        let config = &self.context.config;
        if config.require_authentication || !config.keyring.is_empty() {
            return HandshakeRefusal::wrong_key();
        }
        let text = "this peer has no keys, and accepts clients without credentials only";
        HandshakeRefusal::new(Reason::NoAuthentication, text)
    }

    fn check_hello(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<Option<Box<HandshakeResult>>, HandshakeRefusal> {
        let Stage::Hello(pending) = &mut self.stage else { return Ok(None) };
        let Some(hello) = pending.framing.next()? else { return Ok(None) };
        let config = &self.context.config;
        let permit =
            SessionPermit::take(&self.context.alive, config.max_sessions).ok_or_else(|| {
                let max_sessions = config.max_sessions;
                let text = format!(
                    "the limit of {max_sessions} clients is reached: try later, or raise it \
                (`--max-clients N` of the server)"
                );
                HandshakeRefusal::new(Reason::TooManySessions, text)
            })?;
        // Only now the initiator has proved that it has the secret: a replay of its first message cannot.
        if pending.ticket.is_some_and(|id| !config.keyring.use_ticket(&id, now)) {
            return Err(HandshakeRefusal::wrong_key());
        }
        let initiator = InitiatorInfo { address: self.address, identity: pending.identity.clone() };
        let ours = (config.check)(&initiator, &hello).and_then(check_length)?;
        pending.framing.seal(&[&[0], &ours[..]].concat(), out);
        pending.framing.set_max_length(MAX_MESSAGE);
        let Stage::Hello(pending) = std::mem::replace(&mut self.stage, Stage::Done) else {
            return Ok(None);
        };
        let PendingInitiator { framing, identity, revocations, .. } = *pending;
        Ok(Some(Box::new(HandshakeResult {
            framing,
            identity,
            revocations,
            hello,
            _permit: Some(permit),
        })))
    }
}

fn choose(theirs: Versions) -> Result<u8, HandshakeRefusal> {
    let ours = Versions::OURS;
    if theirs.lowest > theirs.highest {
        return Err(HandshakeRefusal::new(
            Reason::ProtocolError,
            "the lowest version is above the highest",
        ));
    }
    ours.common(theirs).ok_or_else(|| {
        let text = format!(
            "the listener supports protocol versions {ours}, the initiator {theirs}: update the \
            older end"
        );
        HandshakeRefusal::new(Reason::WrongVersion, text)
    })
}

/// Checks that a hello and its prefix of one byte fit into a message.
fn check_length(hello: Vec<u8>) -> Result<Vec<u8>, Refusal> {
    if hello.len() < MAX_MESSAGE {
        return Ok(hello);
    }
    let text = format!("the listener's hello has {} bytes, over the limit", hello.len());
    Err(Refusal { code: "hello_too_long", text })
}

impl HandshakeRefusal {
    pub(super) fn new(reason: Reason, text: impl Into<String>) -> Self {
        HandshakeRefusal { reason, code: None, text: text.into() }
    }

    fn wrong_key() -> Self {
        let text = "unknown key, token or ticket, or a ticket that was used or has expired";
        HandshakeRefusal::new(Reason::WrongKey, text)
    }

    /// The system returns no random numbers: nothing else can fail there.
    fn failed() -> Self {
        HandshakeRefusal::new(Reason::ProtocolError, "the handshake failed")
    }

    /// The refusal of a hello: reason, the check's code, and a text.
    fn to_message(&self) -> Vec<u8> {
        let code = self.code.unwrap_or(self.reason.name()).as_bytes();
        let code = &code[..code.len().min(255)];
        let text = shortened(&self.text).as_bytes();
        [&[self.reason.code(), code.len() as u8], code, text].concat()
    }
}

impl From<FramingError> for HandshakeRefusal {
    fn from(error: FramingError) -> Self {
        match error {
            FramingError::Oversized { .. } => {
                HandshakeRefusal::new(Reason::Oversized, format!("invalid hello: {error}"))
            }
            FramingError::Undecipherable => HandshakeRefusal::wrong_key(),
            FramingError::ProtocolError(_) => {
                HandshakeRefusal::new(Reason::ProtocolError, format!("invalid hello: {error}"))
            }
        }
    }
}

impl From<BadPreface> for HandshakeRefusal {
    fn from(bad: BadPreface) -> Self {
        match bad {
            BadPreface::Oversized => HandshakeRefusal::new(
                Reason::Oversized,
                "the preface is longer than version 1 allows",
            ),
            BadPreface::ProtocolError => HandshakeRefusal::new(
                Reason::ProtocolError,
                "the preface is not valid for version 1",
            ),
        }
    }
}

impl From<Refusal> for HandshakeRefusal {
    fn from(refusal: Refusal) -> Self {
        HandshakeRefusal { reason: Reason::Refused, code: Some(refusal.code), text: refusal.text }
    }
}

/// A permit for one open session of a listener, until it is dropped.
pub(super) struct SessionPermit {
    alive: Arc<AtomicUsize>,
}

impl SessionPermit {
    fn take(alive: &Arc<AtomicUsize>, max_sessions: usize) -> Option<Self> {
        let more = |count| (count < max_sessions).then_some(count + 1);
        alive.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(SessionPermit { alive: Arc::clone(alive) })
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}
