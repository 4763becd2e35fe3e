//! The handshake at the listener's end: bytes in, bytes out, told the time. It touches no socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::acceptor::{AcceptorConfig, Caller};
use super::answer::Answer;
use super::connection::Opened;
use super::framing::{Fault, Framing};
use super::key::{KeyId, Secret};
use super::keyring::Found;
use super::noise::{EPHEMERAL, TAG, responder};
use super::preface::{BadPreface, MAGIC, PREFACE, Preface, Versions, versions};
use super::refusal::{Reason, Refusal, shortened};
use super::ticket::random_secret;
use super::{ANONYMOUS, MAX_MESSAGE};
use crate::error::Error;

/// What all handshakes of a listener go by.
pub(super) struct Rules {
    pub(super) config: AcceptorConfig,
    pub(super) alive: Arc<AtomicUsize>,
    /// Tried where the key is not known, so that it takes as long as where the secret is wrong.
    decoy: Secret,
}

/// One handshake.
pub(super) struct Responder {
    rules: Arc<Rules>,
    address: SocketAddr,
    stage: Stage,
}

enum Stage {
    Preface(Vec<u8>),
    Hello(Box<Known>),
    Over,
}

/// A caller whose preface was good.
struct Known {
    framing: Framing,
    identity: String,
    withdrawals: u64,
    ticket: Option<KeyId>,
}

/// How it goes on.
pub(super) enum Step {
    /// More bytes must come.
    More,
    Open(Box<Opened>),
    Refused(Rejection),
}

/// Why it does not go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) reason: Reason,
    /// The listener's own word.
    pub(super) code: Option<&'static str>,
    text: String,
}

impl Rules {
    pub(super) fn new(mut config: AcceptorConfig) -> Result<Arc<Self>, Error> {
        config.max_hello = config.max_hello.min(MAX_MESSAGE);
        let alive = Arc::new(AtomicUsize::new(0));
        Ok(Arc::new(Rules { config, alive, decoy: random_secret()? }))
    }
}

impl Responder {
    pub(super) fn new(rules: &Arc<Rules>, address: SocketAddr) -> Self {
        Responder { rules: Arc::clone(rules), address, stage: Stage::Preface(Vec::new()) }
    }

    /// Takes bytes of the caller, and appends what is to be sent to it. A refusal is part of that.
    pub(super) fn take(&mut self, bytes: &[u8], now: Instant, out: &mut Vec<u8>) -> Step {
        let step = match &mut self.stage {
            Stage::Preface(received) => {
                received.extend(bytes);
                self.check_preface(now, out).and_then(|()| self.check_hello(now, out))
            }
            Stage::Hello(known) => {
                known.framing.feed(bytes);
                self.check_hello(now, out)
            }
            Stage::Over => Ok(None),
        };
        match step {
            Ok(None) => Step::More,
            Ok(Some(opened)) => Step::Open(opened),
            Err(no) => {
                self.refuse(&no, out);
                Step::Refused(no)
            }
        }
    }

    /// Says no, in the form that the caller expects by now.
    pub(super) fn refuse(&mut self, no: &Rejection, out: &mut Vec<u8>) {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Preface(_) => out.extend(Answer::refuse(no.reason, &no.text).to_bytes()),
            Stage::Hello(mut known) => known.framing.seal(&no.to_message(), out),
            Stage::Over => {}
        }
    }

    fn check_preface(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<(), Rejection> {
        let Stage::Preface(received) = &self.stage else { return Ok(()) };
        if !received.iter().zip(MAGIC).all(|(theirs, ours)| theirs == ours) {
            return Err(Rejection::new(
                Reason::NotOurs,
                "this listener speaks Wirelane's protocol only",
            ));
        }
        let Some(theirs) = versions(received) else { return Ok(()) };
        let chosen = choose(theirs)?;
        let Some((head, rest)) = received.split_first_chunk::<PREFACE>() else { return Ok(()) };
        let preface = Preface::parse(head)?;
        if preface == Preface::Plain && self.rules.config.require_authentication {
            let text = "this peer wants a key or a ticket: configure the key it uses, or let it \
                        take callers without";
            return Err(Rejection::new(Reason::Unauthenticated, text));
        }
        let Some((first, rest)) = rest.split_at_checked(preface.follows()) else { return Ok(()) };
        let mut known = match preface {
            Preface::Plain => self.meet_anonymous(chosen, out),
            Preface::Noise { key } => self.meet(key, head, first, chosen, now, out)?,
        };
        known.framing.feed(rest);
        self.stage = Stage::Hello(Box::new(known));
        Ok(())
    }

    fn meet_anonymous(&self, chosen: u8, out: &mut Vec<u8>) -> Known {
        out.extend(Answer::go_on(chosen, Vec::new()).to_bytes());
        let framing = Framing::new(None, self.rules.config.max_hello);
        let withdrawals = self.rules.config.keyring.withdrawals();
        Known { framing, identity: ANONYMOUS.to_owned(), withdrawals, ticket: None }
    }

    fn meet(
        &self,
        id: KeyId,
        head: &[u8; PREFACE],
        first: &[u8],
        chosen: u8,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<Known, Rejection> {
        let keyring = &self.rules.config.keyring;
        let found = keyring.find(&id, now);
        let secret = found.as_ref().map_or(&self.rules.decoy, |found| &found.secret);
        let mut noise = responder(secret, head).map_err(|_| Rejection::broken())?;
        let opened = noise.read_message(first, &mut [0; TAG]);
        let (Ok(_), Some(Found { identity, once, withdrawals, .. })) = (opened, found) else {
            return Err(Rejection::wrong_key());
        };
        let ephemeral: &[u8; EPHEMERAL] = first.first_chunk().ok_or_else(Rejection::broken)?;
        if !keyring.remember(*ephemeral) {
            let text =
                "this handshake was seen before: somebody recorded it, or a proxy repeats it";
            return Err(Rejection::new(Reason::Replayed, text));
        }
        let mut answer = Answer::go_on(chosen, vec![0; EPHEMERAL + 4 + TAG]);
        let summary = answer.summary();
        noise.write_message(&summary, &mut answer.body).map_err(|_| Rejection::broken())?;
        let cipher = noise.into_transport_mode().map_err(|_| Rejection::broken())?;
        out.extend(answer.to_bytes());
        let framing = Framing::new(Some(cipher), self.rules.config.max_hello);
        Ok(Known { framing, identity, withdrawals, ticket: once.then_some(id) })
    }

    fn check_hello(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<Option<Box<Opened>>, Rejection> {
        let Stage::Hello(known) = &mut self.stage else { return Ok(None) };
        let Some(hello) = known.framing.next()? else { return Ok(None) };
        let config = &self.rules.config;
        let place = Place::take(&self.rules.alive, config.max_sessions).ok_or_else(|| {
            let most = config.max_sessions;
            let text = format!(
                "this peer serves {most} clients, as many as it allows: try later, or raise its limit \
                 (`wirelane serve --max-clients N`)"
            );
            Rejection::new(Reason::TooManySessions, text)
        })?;
        // Only now the caller proved that it knows the secret: no record of its first message can.
        if known.ticket.is_some_and(|id| !config.keyring.spend(&id, now)) {
            return Err(Rejection::wrong_key());
        }
        let caller = Caller { address: self.address, identity: known.identity.clone() };
        let ours = (config.check)(&caller, &hello).and_then(within_a_message)?;
        known.framing.seal(&[&[0], &ours[..]].concat(), out);
        known.framing.allow(MAX_MESSAGE);
        let Stage::Hello(known) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Ok(None);
        };
        let Known { framing, identity, withdrawals, .. } = *known;
        Ok(Some(Box::new(Opened { framing, identity, withdrawals, hello, _place: Some(place) })))
    }
}

fn choose(theirs: Versions) -> Result<u8, Rejection> {
    let ours = Versions::OURS;
    if theirs.lowest > theirs.highest {
        return Err(Rejection::new(
            Reason::ProtocolError,
            "the lowest version is above the highest",
        ));
    }
    ours.common(theirs).ok_or_else(|| {
        let text = format!("this peer speaks versions {ours}, you {theirs}: update the older one");
        Rejection::new(Reason::WrongVersion, text)
    })
}

/// A hello travels behind one byte.
fn within_a_message(hello: Vec<u8>) -> Result<Vec<u8>, Refusal> {
    if hello.len() < MAX_MESSAGE {
        return Ok(hello);
    }
    let text = format!("this peer has {} bytes to say of itself, too many", hello.len());
    Err(Refusal { code: "hello_too_long", text })
}

impl Rejection {
    pub(super) fn new(reason: Reason, text: impl Into<String>) -> Self {
        Rejection { reason, code: None, text: text.into() }
    }

    /// Whether the key is not known or its secret is another, nobody is told.
    fn wrong_key() -> Self {
        let text = "the key or ticket is not known here, or was used or has ended: see that both ends \
                    have the same key";
        Rejection::new(Reason::WrongKey, text)
    }

    /// The system gives no random numbers, which is all that can fail there.
    fn broken() -> Self {
        Rejection::new(Reason::ProtocolError, "the handshake could not be made")
    }

    /// The refusal of a hello: why, the listener's own word, and a text.
    fn to_message(&self) -> Vec<u8> {
        let code = self.code.unwrap_or(self.reason.name()).as_bytes();
        let code = &code[..code.len().min(255)];
        let text = shortened(&self.text).as_bytes();
        [&[self.reason.code(), code.len() as u8], code, text].concat()
    }
}

impl From<Fault> for Rejection {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Oversized { .. } => {
                Rejection::new(Reason::Oversized, format!("the hello is {fault}"))
            }
            Fault::Undecipherable => Rejection::wrong_key(),
            Fault::ProtocolError(_) => {
                Rejection::new(Reason::ProtocolError, format!("the hello is {fault}"))
            }
        }
    }
}

impl From<BadPreface> for Rejection {
    fn from(bad: BadPreface) -> Self {
        match bad {
            BadPreface::Oversized => {
                Rejection::new(Reason::Oversized, "the preface is longer than version 1 allows")
            }
            BadPreface::ProtocolError => {
                Rejection::new(Reason::ProtocolError, "the preface is none of version 1")
            }
        }
    }
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        Rejection { reason: Reason::Refused, code: Some(refusal.code), text: refusal.text }
    }
}

/// One of the sessions that a listener allows to be alive, until it is dropped.
pub(super) struct Place {
    alive: Arc<AtomicUsize>,
}

impl Place {
    fn take(alive: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let more = |count| (count < most).then_some(count + 1);
        alive.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Place { alive: Arc::clone(alive) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}
