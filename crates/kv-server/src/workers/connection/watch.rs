//! Watching a client's board: notes instead of messages, bells instead of numbers. See [`Board`].

use std::sync::atomic::{Ordering, fence};

use fabric::{Completion, Lane, Op, Pieces, Work};
use kv_proto::wire::{Board, Message, Note};

use super::{BOARD, Guest, State};
use crate::workers::context::{MESSAGE, RECEIVES, Tools};

/// What is known of a board.
#[derive(Default)]
pub(super) struct Watch {
    state: Watching,
    /// The sequence of the last note that was read.
    last: u64,
    /// How many operations for it are in flight, and whether one of them reads the line.
    in_flight: usize,
    reading: bool,
    /// The client said that we should look.
    called: bool,
    /// A bell was rung since the client was last seen to be awake.
    rung: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Watching {
    #[default]
    No,
    /// The client is being told that we watch.
    Begins,
    Yes,
    /// The client is being told that we do not.
    Ends,
    /// One more look: it may have left a note before it was told.
    Last,
}

impl Watch {
    pub(super) fn is_still(&self) -> bool {
        self.in_flight == 0
    }

    /// Whether it is watched, and nothing is in flight for it.
    pub(super) fn is_on(&self) -> bool {
        self.state == Watching::Yes && self.in_flight == 0
    }
}

impl Guest {
    /// Begins to watch, if that costs little. Whoever asks by messages is told so.
    pub(super) fn watch(&mut self, tools: &mut Tools) {
        let State::Client(client) = &self.state else { return };
        let may = client.board && self.watch.state == Watching::No && self.link.is_near();
        if may && tools.watched < MAX_WATCHED {
            tools.watched += 1;
            self.watch.state = Watching::Begins;
            self.tell_watching(Board::YES);
        }
    }

    /// Ends watching; `true` once that is over.
    pub(super) fn ends_watch(&mut self) -> bool {
        if self.watch.state == Watching::Yes {
            self.watch.state = Watching::Ends;
            self.tell_watching(0);
            self.post();
        }
        // Nobody is told anything who was sent away.
        let over = !matches!(self.state, State::Client(_));
        let off = self.watch.state == Watching::No && !self.watch.called;
        self.watch.in_flight == 0 && (off || over)
    }

    fn tell_watching(&mut self, word: u64) {
        if let (State::Client(client), Some(room)) = (&self.state, &self.room) {
            let to = client.landing.at(Board::STORE as u64);
            self.ops.push_back(Op::write(FLAG, room.word(word), to));
            self.watch.in_flight += 1;
        }
    }

    /// Looks at the board, if it is watched; says whether something stood there.
    pub(super) fn look(&mut self, tools: &mut Tools) -> bool {
        let due = matches!(self.watch.state, Watching::Yes | Watching::Last) || self.watch.called;
        if self.watch.reading || !due {
            return false;
        }
        if let (State::Client(client), Some(room)) = (&self.state, &self.room) {
            if self.watch.rung || self.watch.state != Watching::Yes || self.watch.called {
                // What we wrote comes before what we read: the client does it the other way round.
                fence(Ordering::SeqCst);
            }
            if self.link.peek(&client.landing, Board::CLIENT as u64, &room.line()) {
                self.watch.called = false;
                let news = self.read_line(tools);
                if self.watch.state == Watching::Last {
                    self.watch.state = self.stop_watching(tools);
                }
                return news;
            }
            // The link goes another way now, where looking costs a round trip: messages are better.
            if self.watch.state == Watching::Yes && !self.link.is_near() {
                self.ends_watch();
                return false;
            }
            let from = client.landing.at(Board::CLIENT as u64);
            let token = if self.watch.state == Watching::Last { LAST } else { LINE };
            self.ops.push_back(Op::read(token, room.line(), from));
            self.watch.in_flight += 1;
            (self.watch.reading, self.watch.called) = (true, false);
        }
        false
    }

    pub(super) fn called_to_look(&mut self) -> Result<(), &'static str> {
        let State::Client(client) = &self.state else { return Ok(()) };
        self.watch.called = client.board;
        client.board.then_some(()).ok_or("it has no board to look at")
    }

    /// An operation for the board is over; says whether that was news.
    pub(super) fn looked(&mut self, completion: &Completion, tools: &mut Tools) -> bool {
        self.watch.in_flight -= 1;
        let ok = completion.outcome.is_ok();
        match completion.token {
            LINE | LAST => {
                self.watch.reading = false;
                let news = ok && self.read_line(tools);
                if completion.token == LAST {
                    self.watch.state = self.stop_watching(tools);
                }
                news
            }
            FLAG => {
                self.watch.state = match self.watch.state {
                    Watching::Begins if ok => Watching::Yes,
                    Watching::Ends if ok => Watching::Last,
                    _ => self.stop_watching(tools),
                };
                false
            }
            KICK => false,
            note => {
                if let (true, Work::Read { into, .. }) = (ok, &completion.work) {
                    self.read_note(note & SEQUENCE, into.total(), tools);
                }
                true
            }
        }
    }

    fn stop_watching(&mut self, tools: &mut Tools) -> Watching {
        if self.watch.state != Watching::No {
            tools.watched -= 1;
        }
        // It may sleep since we rang, and nobody looks any more.
        self.watch.called |= self.watch.rung;
        Watching::No
    }

    fn read_line(&mut self, tools: &mut Tools) -> bool {
        let mut line = [0; Board::LINE];
        match &self.room {
            Some(room) => room.read_line(&mut line),
            None => return false,
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&line[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let before = self.watch.last;
        // What is rung from here on, the line is too old for: it is looked at once more.
        let rung = std::mem::take(&mut self.watch.rung);
        for _ in 0..Board::NOTES {
            let sequence = self.watch.last + 1;
            let note = Note::from_word(word(Board::note(sequence)));
            if note.sequence != sequence as u16 {
                break;
            }
            self.watch.last = sequence;
            let (State::Client(client), Some(room)) = (&self.state, &self.room) else { break };
            let (at, length) = (u64::from(note.at) * Note::UNIT as u64, usize::from(note.length));
            if length > MESSAGE || at + length as u64 > client.landing.len() {
                self.dismiss("a note says that a batch is where none can be");
                return true;
            }
            let place = RECEIVES + (sequence % Board::NOTES as u64) as usize;
            let place = room.place(place, length);
            if self.link.peek(&client.landing, at, &place) {
                self.read_note(sequence, length, tools);
                continue;
            }
            let from = client.landing.at(at);
            self.ops.push_back(Op::read(NOTE | sequence & SEQUENCE, place, from));
            self.watch.in_flight += 1;
        }
        // It slept, or was about to, when we rang.
        if rung && word(Board::CLIENT) == Board::YES {
            let work = Work::Send { from: Pieces::EMPTY, imm: Some(0) };
            self.ops.push_back(Op { token: KICK, work });
            self.watch.in_flight += 1;
        }
        self.watch.last != before
    }

    fn read_note(&mut self, sequence: u64, length: usize, tools: &mut Tools) {
        let mut message = std::mem::take(&mut tools.message);
        message.resize(length, 0);
        if let Some(room) = &self.room {
            room.read(RECEIVES + (sequence % Board::NOTES as u64) as usize, &mut message);
        }
        let heard = match Message::parse(&message) {
            Ok(Message::Batch(batch)) if has_bell(batch.head.at) => {
                self.answer(&message, batch, Some(sequence), tools)
            }
            Ok(_) => Err("a note of something that is no batch, or has no bell"),
            Err(why) => Err(why),
        };
        if let Err(why) = heard {
            crate::engine::add(&tools.engine.counts.nonsense, 1);
            self.dismiss(why);
        }
        tools.message = message;
    }

    /// A bell was rung.
    pub(super) fn rang(&mut self) {
        self.watch.rung = true;
        // Where nobody watches any more, the client may sleep and not be seen.
        self.watch.called |= self.watch.state == Watching::No;
    }

    /// It is gone, and its board with it.
    pub(super) fn forget_board(&mut self, tools: &mut Tools) {
        self.watch.state = self.stop_watching(tools);
    }
}

/// Whether there is a word before the answers.
fn has_bell(answers: u64) -> bool {
    answers >= (Board::LENGTH + Board::BELL) as u64 && answers.is_multiple_of(Board::BELL as u64)
}

/// How many boards a worker watches: each costs a look in every round.
const MAX_WATCHED: usize = 8;

/// What an operation is for; notes have their sequence in the low bits.
const LINE: u64 = BOARD | 1 << 48;
const LAST: u64 = BOARD | 5 << 48;
const FLAG: u64 = BOARD | 2 << 48;
const KICK: u64 = BOARD | 3 << 48;
const NOTE: u64 = BOARD | 4 << 48;
const SEQUENCE: u64 = (1 << 48) - 1;
