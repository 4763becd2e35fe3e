//! A guest: one link and whoever is at its other end.
//!
//! A guest is stepped by its worker: what the link brings is answered, what must wait for bytes of the
//! client's waits. Nothing here blocks. `serve.rs` does what requests ask for, `change.rs` where that is a write, `fetch.rs`
//! brings bytes from the client, `reply.rs` writes answers; `measure.rs` is the other thing that links are for.

mod change;
mod draft;
mod durable;
mod fetch;
mod handles;
mod measure;
mod pinned_reads;
mod reply;
mod serve;
mod watch;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::link::Link;
use fabric::{Completion, Done, Lane, Op, RemoteRegion, Rights, Window};
use kv_proto::wire::{Board, Limits, Message, Opening, Welcome};

use crate::engine::quota::Share;
use crate::engine::session::Session;
use crate::rows::Rows;
use crate::workers::context::{MESSAGE, RECEIVES, Room, Tools};
use crate::workers::send_buffers::Slot;
use access::Pass;
pub(crate) use draft::{Draft, Hold};
pub(crate) use durable::News;
use durable::Parked;
use fetch::Fetch;
use handles::Handles;
use measure::Measure;
pub use measure::SCRATCH;
pub(crate) use pinned_reads::Loans;
use reply::Reply;
use watch::Watch;

pub(crate) struct Guest {
    pub(crate) link: Link,
    peer: SocketAddr,
    identity: String,
    since: Instant,
    state: State,
    room: Option<Room>,
    /// What the link has no room for yet.
    ops: VecDeque<Op>,
    receives: VecDeque<Op>,
    /// What the link has: receives, and all else.
    listening: usize,
    replies: Rows<Reply>,
    /// Answers that wait for others to arrive.
    unsent: VecDeque<Draft>,
    /// How many answers on their way are in large slots.
    large: usize,
    waiting: Rows<Draft>,
    fetches: Rows<Fetch>,
    letters: Rows<Slot>,
    watch: Watch,
    loans: Loans,
    /// Batches that wait for the disk, and how much of theirs is there.
    parked: Rows<Parked>,
    away: usize,
    /// Which of its worker's guests it is.
    pub(crate) row: u32,
    /// How often it was stepped.
    turns: u32,
    /// Its session, also after it was dismissed: writes may still come to nothing.
    session: Option<Arc<Session>>,
}

enum State {
    /// The first message has not come.
    New,
    Client(Box<Client>),
    Measured(Box<Measure>),
    /// To be closed, or closed.
    Over,
}

/// A client of the store.
pub(super) struct Client {
    session: Arc<Session>,
    /// What it may do.
    pass: Pass,
    /// Its memory: the landing is 0.
    regions: HashMap<u32, Window>,
    landing: Window,
    /// Whether the landing begins with a board.
    board: bool,
    /// Whether it may read the pool.
    lent: bool,
    handles: Handles,
    /// What it may have on its way here.
    share: Arc<Share>,
}

impl Guest {
    pub(crate) fn new(link: Link, tools: &mut Tools) -> Result<Self, fabric::Error> {
        let explained = link.report().explain();
        let room = tools.rooms.take(&tools.endpoint)?;
        let receives = (0..RECEIVES).map(|at| room.receive(at, RECEIVE | at as u64)).collect();
        Ok(Guest {
            link,
            peer: explained.peer,
            identity: explained.identity,
            since: Instant::now(),
            state: State::New,
            room: Some(room),
            ops: VecDeque::new(),
            receives,
            listening: 0,
            replies: Rows::default(),
            unsent: VecDeque::new(),
            large: 0,
            session: None,
            waiting: Rows::default(),
            fetches: Rows::default(),
            letters: Rows::default(),
            watch: Watch::default(),
            loans: Loans::new(tools.engine.clone()),
            parked: Rows::default(),
            away: 0,
            row: 0,
            turns: 0,
        })
    }

    /// Does what there is to do; `false`: nothing.
    pub(crate) fn step(&mut self, tools: &mut Tools, done: &mut Vec<Completion>) -> bool {
        // Looking at a board is not work, unless something stands there.
        let mut works = false;
        self.turns = self.turns.wrapping_add(1);
        // While a board is watched and nothing is in flight, the link has little to say.
        if !self.only_watches() || self.turns.is_multiple_of(POLLS) {
            self.link.poll(done);
            for completion in done.drain(..) {
                works |= self.complete(completion, tools);
            }
        }
        while let Some(draft) = self.unsent.pop_front() {
            if !self.reply(draft, tools) {
                break;
            }
        }
        works |= self.look(tools);
        self.post();
        works
    }

    /// Whether there is nothing to wait for but notes.
    fn only_watches(&self) -> bool {
        self.watch.is_on()
            && self.replies.len() + self.fetches.len() + self.letters.len() == 0
            && self.ops.is_empty()
    }

    /// Prepares to be left alone until its descriptor says something; `false`: not yet.
    pub(crate) fn rest(&mut self, tools: &mut Tools) -> bool {
        self.reclaim(tools);
        self.ends_watch() && self.link.arm()
    }

    fn post(&mut self) -> usize {
        let heard = if self.receives.is_empty() { 0 } else { self.link.post(&mut self.receives) };
        self.listening += heard;
        heard + if self.ops.is_empty() { 0 } else { self.link.post(&mut self.ops) }
    }

    /// Whether the link is over and has given everything back.
    pub(crate) fn is_gone(&self) -> bool {
        self.link.ended().is_some()
            && self.listening == 0
            && self.ops.is_empty()
            && self.replies.len() + self.fetches.len() + self.letters.len() == 0
            && self.watch.is_still()
            && self.away == 0
    }

    /// How long it must have been silent to be sent away without losing anything; none: something is in flight, or
    /// open to be gone on with.
    pub(crate) fn patience(&mut self, tools: &mut Tools) -> Option<Duration> {
        self.reclaim(tools);
        let open = matches!(&self.state, State::Client(client) if !client.handles.is_empty());
        let waiting = self.waiting.len() + self.fetches.len() + self.unsent.len() + self.ops.len();
        if open || waiting + self.away > 0 || !self.loans.is_empty() {
            return None;
        }
        // A client by TCP that has its answer says so only when it asks the next time. So nobody waits for that, but
        // a value may take a while to go out.
        let sending = self.replies.iter_mut().any(|(_, reply)| reply.has_values());
        Some(if sending { SENDING } else { QUIET })
    }

    /// Whether it may still do what it might when it came; if not it is dismissed, so that nothing of the old rights
    /// is left.
    pub(crate) fn is_welcome(&mut self) -> bool {
        let State::Client(client) = &mut self.state else { return true };
        if !client.pass.is_stale() {
            return true;
        }
        if let Some(renewed) = client.pass.renew() {
            client.pass = renewed;
            return true;
        }
        self.dismiss("what its identity may do has changed");
        false
    }

    /// Ends the link, for a reason to be logged.
    pub(crate) fn dismiss(&mut self, why: &str) {
        if !matches!(self.state, State::Over) {
            tracing::debug!(peer = %self.peer, why, "a link is closed");
        }
        self.leave();
        self.link.close();
    }

    /// The link, once nothing is in flight any more; what its client was lent is given up after it.
    pub(crate) fn into_link(mut self, tools: &mut Tools) -> (Link, Loans) {
        self.leave();
        self.forget_board(tools);
        if let Some(session) = self.session.take() {
            session.leave();
        }
        if let Some(room) = self.room.take() {
            tools.rooms.give_back(room);
        }
        for draft in self.unsent.drain(..) {
            tools.recycle(draft);
        }
        let rows: Vec<u32> = self.waiting.iter_mut().map(|(row, _)| row).collect();
        for row in rows {
            if let Some(draft) = self.waiting.remove(row) {
                tools.recycle(draft);
            }
        }
        let loans = self.take_loans(tools);
        (self.link, loans)
    }

    /// What it holds open is closed; its session is kept for a while.
    fn leave(&mut self) {
        self.state = State::Over;
    }

    /// Looks after what stands unused.
    pub(crate) fn tidy(&mut self, now: Instant, tools: &mut Tools) {
        self.reclaim(tools);
        match &mut self.state {
            State::Client(client) => {
                let idled = client.handles.tidy(now, tools.engine.idle());
                crate::engine::add(&tools.engine.counts.idled, idled as u64);
            }
            State::New if now.saturating_duration_since(self.since) > tools.engine.idle() => {
                self.dismiss("it does not say what it came for");
            }
            _ => {}
        }
    }

    /// Says whether that was something to do.
    fn complete(&mut self, completion: Completion, tools: &mut Tools) -> bool {
        let row = completion.token as u32;
        match completion.token & KINDS {
            BOARD => return self.looked(&completion, tools),
            RECEIVE => self.received(row as usize, &completion, tools),
            REPLY => self.replied(row, completion, tools),
            FETCH => self.fetched(row, completion, tools),
            _ => {
                if let Some(slot) = self.letters.remove(row) {
                    tools.desk.give_back(slot);
                }
            }
        }
        true
    }

    fn received(&mut self, at: usize, completion: &Completion, tools: &mut Tools) {
        self.listening -= 1;
        match completion.outcome {
            Ok(Done::Received { length, imm: None }) => {
                let mut message = std::mem::take(&mut tools.message);
                message.resize(length, 0);
                if let Some(room) = &self.room {
                    // Copied before it is looked at: the client may write to what it sent from.
                    room.read(at, &mut message);
                }
                if let Err(why) = self.hear(&message, tools) {
                    crate::engine::add(&tools.engine.counts.nonsense, 1);
                    self.dismiss(why);
                }
                tools.message = message;
            }
            Ok(_) => {}
            Err(fabric::Failure::TooLong) => {
                return self.dismiss("a message is longer than a client may send");
            }
            Err(_) => return,
        }
        if let Some(room) = &self.room {
            self.receives.push_back(room.receive(at, RECEIVE | at as u64));
        }
    }

    fn hear(&mut self, message: &[u8], tools: &mut Tools) -> Result<(), &'static str> {
        match &mut self.state {
            State::Client(client) => match Message::parse(message)? {
                Message::Batch(batch) => {
                    self.watch(tools);
                    self.answer(message, batch, None, tools)
                }
                Message::Look => self.called_to_look(),
                Message::Grant(grant) => {
                    if grant.number == 0 || client.regions.len() >= usize::from(REGIONS) {
                        return Err("it grants more regions than it may");
                    }
                    let window = import(&mut self.link, &grant.region)?;
                    client.regions.insert(grant.number, window);
                    Ok(())
                }
                Message::Forget { number } => client
                    .regions
                    .remove(&number)
                    .map(drop)
                    .ok_or("it deregisters an unknown region"),
            },
            State::New => self.open(message, tools),
            State::Measured(measure) => {
                measure.renew()?;
                // Whoever sends and takes nothing is not told more and more.
                if self.letters.len() >= MAX_LETTERS {
                    return Err("it does not take what it is told");
                }
                let answer = measure.echo(message);
                self.say(answer, tools)
            }
            State::Over => Ok(()),
        }
    }

    fn open(&mut self, message: &[u8], tools: &mut Tools) -> Result<(), &'static str> {
        match Opening::parse(message)? {
            Opening::Measure => {
                let pass = self.admitted(tools)?;
                let measure = Measure::new(pass, &tools.endpoint, &mut self.link)
                    .map_err(|_| "there is no memory to measure with")?;
                let hello = measure.hello();
                self.state = State::Measured(Box::new(measure));
                self.say(&hello, tools)
            }
            Opening::Store { session, landing, board } => {
                let landing = import(&mut self.link, &landing)?;
                if board && landing.len() < Board::LENGTH as u64 {
                    return Err("its landing is too small for a board");
                }
                let engine = &tools.engine;
                let pass = self.admitted(tools)?;
                let (session, resumed) = engine
                    .sessions
                    .enter(session, &self.identity)
                    .ok_or("there are too many sessions")?;
                let limits = Limits {
                    message: MESSAGE as u32,
                    requests: REQUESTS,
                    batches: BATCHES,
                    regions: REGIONS,
                    value: engine.max_value(),
                    moved: MOVED,
                };
                let (epoch, id) = (engine.epoch(), session.id());
                // It could read all of the pool.
                let near = board && pass.reads_everything() && self.link.is_near();
                let pool = near.then(|| self.link.grant(&tools.lent)).and_then(Result::ok);
                let pool = pool.map(|pool| pool.to_bytes());
                let lent = pool.is_some();
                let welcome = Welcome { epoch, session: id, resumed, limits, pool };
                let (regions, handles) = (HashMap::new(), Handles::default());
                self.session = Some(session.clone());
                let share = engine.budget().share();
                let client =
                    Client { session, pass, regions, landing, board, lent, handles, share };
                self.state = State::Client(Box::new(client));
                self.say(&welcome.to_bytes(), tools)
            }
        }
    }

    /// What its identity may do.
    fn admitted(&self, tools: &Tools) -> Result<Pass, &'static str> {
        let access = tools.engine.access();
        let pass = access.admit_link(&self.identity, self.link.withdrawals());
        pass.ok_or("its identity is not known any more")
    }

    /// Sends a message.
    fn say(&mut self, message: &[u8], tools: &mut Tools) -> Result<(), &'static str> {
        let slot = tools.desk.write(message).ok_or("there is no memory for an answer")?;
        let bytes = tools.desk.slice(&slot, 0, message.len());
        let row = self.letters.insert(slot);
        self.ops.push_back(Op::send(LETTER | u64::from(row), bytes));
        Ok(())
    }
}

/// Memory of a client's that we may write to and read.
fn import(link: &mut Link, region: &[u8]) -> Result<Window, &'static str> {
    let region =
        RemoteRegion::from_bytes(region).map_err(|_| "its memory is none of the fabric's")?;
    let window = link.import(&region).map_err(|_| "its memory cannot be reached")?;
    let wanted = Rights { read: true, write: true, atomic: false };
    let fits = window.rights() == wanted || window.rights() == Rights::ALL;
    fits.then_some(window).ok_or("its memory is not for writing and reading")
}

/// Echoes that wait to be taken: more than a measure has in flight.
const MAX_LETTERS: usize = 64;
/// How many requests one batch may have, how many batches a client may have in flight, how many regions
/// beside its landing, and how many bytes of values one batch may name.
const REQUESTS: u16 = 256;
const BATCHES: u16 = 64;
const REGIONS: u16 = 256;
const MOVED: u64 = 1 << 30;

/// How long a client says nothing before it is taken to have nothing to say: longer than one that asks one thing after
/// the other pauses; and while values are on their way to it.
const QUIET: Duration = Duration::from_millis(300);
const SENDING: Duration = Duration::from_secs(1);

/// How many looks at a board there are for one at the link.
const POLLS: u32 = 16;

/// What a completion is, in the high bits of its token.
const RECEIVE: u64 = 1 << 56;
const REPLY: u64 = 2 << 56;
const FETCH: u64 = 3 << 56;
const LETTER: u64 = 4 << 56;
const BOARD: u64 = 5 << 56;
const KINDS: u64 = 0xff << 56;
