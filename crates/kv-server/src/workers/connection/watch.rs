//! Watching a client's control block: slots instead of messages, completion flags instead of numbers. See [`ControlBlock`].

use std::sync::atomic::{Ordering, fence};

use fabric::{Completion, Lane, Op, Pieces, Work};
use kv_proto::wire::{ControlBlock, Message, RequestSlot};

use super::Connection;
use super::token::{Token, WatchOp};
use crate::workers::context::{MESSAGE, RECEIVES, WorkerContext};

/// What is known of a control block.
#[derive(Default)]
pub(super) struct Watch {
    state: Watching,
    /// The sequence of the last slot that was read.
    last: u64,
    /// How many operations for it are in flight, and whether one of them reads the line.
    in_flight: usize,
    reading: bool,
    /// The client said that we should look.
    called: bool,
    /// A completion flag was set since the client was last seen to be awake.
    flag_set: bool,
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
    /// One more look: it may have left a slot before it was told.
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

impl Connection {
    /// Begins to watch, if that costs little. Whoever asks by messages is told so.
    pub(super) fn watch(&mut self, context: &mut WorkerContext) {
        let Some(client) = self.peer.client() else { return };
        let may =
            client.has_control_block() && self.watch.state == Watching::No && self.link.is_near();
        if may && context.watched < MAX_WATCHED {
            context.watched += 1;
            self.watch.state = Watching::Begins;
            self.tell_watching(ControlBlock::YES);
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
        let over = self.peer.client().is_none();
        let off = self.watch.state == Watching::No && !self.watch.called;
        self.watch.in_flight == 0 && (off || over)
    }

    fn tell_watching(&mut self, word: u64) {
        if let Some(client) = self.peer.client() {
            let area = self.receives.area();
            let to = client.receive_buffer().at(ControlBlock::STORE as u64);
            self.ops.push_back(Op::write(
                Token::Watch(WatchOp::State).encode(),
                area.word(word),
                to,
            ));
            self.watch.in_flight += 1;
        }
    }

    /// Looks at the control block, if it is watched; says whether something stood there.
    pub(super) fn look(&mut self, context: &mut WorkerContext) -> bool {
        let due = matches!(self.watch.state, Watching::Yes | Watching::Last) || self.watch.called;
        if self.watch.reading || !due {
            return false;
        }
        if let Some(client) = self.peer.client() {
            let area = self.receives.area();
            if self.watch.flag_set || self.watch.state != Watching::Yes || self.watch.called {
                // What we wrote comes before what we read: the client does it the other way round.
                fence(Ordering::SeqCst);
            }
            if self.link.peek(client.receive_buffer(), ControlBlock::CLIENT as u64, &area.line()) {
                self.watch.called = false;
                let notifications = self.read_line(context);
                if self.watch.state == Watching::Last {
                    self.watch.state = self.stop_watching(context);
                }
                return notifications;
            }
            // The link goes another way now, where looking costs a round trip: messages are better.
            if self.watch.state == Watching::Yes && !self.link.is_near() {
                self.ends_watch();
                return false;
            }
            let from = client.receive_buffer().at(ControlBlock::CLIENT as u64);
            let last = self.watch.state == Watching::Last;
            let token = Token::Watch(if last { WatchOp::LastLine } else { WatchOp::Line });
            self.ops.push_back(Op::read(token.encode(), area.line(), from));
            self.watch.in_flight += 1;
            (self.watch.reading, self.watch.called) = (true, false);
        }
        false
    }

    pub(super) fn called_to_look(&mut self) -> Result<(), &'static str> {
        let Some(client) = self.peer.client() else { return Ok(()) };
        self.watch.called = client.has_control_block();
        client.has_control_block().then_some(()).ok_or("it has no control block to look at")
    }

    /// An operation for the control block is over; says whether it was news to us.
    pub(super) fn looked(
        &mut self,
        op: WatchOp,
        completion: &Completion,
        context: &mut WorkerContext,
    ) -> bool {
        self.watch.in_flight -= 1;
        let ok = completion.outcome.is_ok();
        match op {
            WatchOp::Line | WatchOp::LastLine => {
                self.watch.reading = false;
                let notifications = ok && self.read_line(context);
                if op == WatchOp::LastLine {
                    self.watch.state = self.stop_watching(context);
                }
                notifications
            }
            WatchOp::State => {
                self.watch.state = match self.watch.state {
                    Watching::Begins if ok => Watching::Yes,
                    Watching::Ends if ok => Watching::Last,
                    _ => self.stop_watching(context),
                };
                false
            }
            WatchOp::Wake => false,
            WatchOp::Slot(sequence) => {
                if let (true, Work::Read { into, .. }) = (ok, &completion.work) {
                    self.read_slot(sequence, into.total(), context);
                }
                true
            }
        }
    }

    fn stop_watching(&mut self, context: &mut WorkerContext) -> Watching {
        if self.watch.state != Watching::No {
            context.watched -= 1;
        }
        // It may sleep since we set a flag, and nobody looks any more.
        self.watch.called |= self.watch.flag_set;
        Watching::No
    }

    fn read_line(&mut self, context: &mut WorkerContext) -> bool {
        let mut line = [0; ControlBlock::LINE];
        self.receives.area().read_line(&mut line);
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&line[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let before = self.watch.last;
        // What is set from here on, the line is too old for: it is looked at once more.
        let flag_set = std::mem::take(&mut self.watch.flag_set);
        for _ in 0..ControlBlock::SLOTS {
            let sequence = self.watch.last + 1;
            let slot = RequestSlot::from_word(word(ControlBlock::slot(sequence)));
            if slot.sequence != sequence as u16 {
                break;
            }
            self.watch.last = sequence;
            let Some(client) = self.peer.client() else { break };
            let area = self.receives.area();
            let (at, length) =
                (u64::from(slot.at) * RequestSlot::UNIT as u64, usize::from(slot.length));
            if length > MESSAGE || at + length as u64 > client.receive_buffer().len() {
                self.dismiss("a slot says that a batch is where none can be");
                return true;
            }
            let place = RECEIVES + (sequence % ControlBlock::SLOTS as u64) as usize;
            let place = area.place(place, length);
            if self.link.peek(client.receive_buffer(), at, &place) {
                self.read_slot(sequence, length, context);
                continue;
            }
            let from = client.receive_buffer().at(at);
            self.ops.push_back(Op::read(
                Token::Watch(WatchOp::Slot(sequence)).encode(),
                place,
                from,
            ));
            self.watch.in_flight += 1;
        }
        // It slept, or was about to, when we set a flag.
        if flag_set && word(ControlBlock::CLIENT) == ControlBlock::YES {
            let work = Work::Send { from: Pieces::EMPTY, imm: Some(0) };
            self.ops.push_back(Op { token: Token::Watch(WatchOp::Wake).encode(), work });
            self.watch.in_flight += 1;
        }
        self.watch.last != before
    }

    fn read_slot(&mut self, sequence: u64, length: usize, context: &mut WorkerContext) {
        let mut message = std::mem::take(&mut context.message);
        message.resize(length, 0);
        let place = RECEIVES + (sequence % ControlBlock::SLOTS as u64) as usize;
        self.receives.area().read(place, &mut message);
        let handled = match Message::parse(&message) {
            Ok(Message::Batch(batch)) if has_completion_flag(batch.head.at) => {
                self.answer(&message, batch, Some(sequence), context)
            }
            Ok(_) => Err("a slot of something that is no batch, or has no completion flag"),
            Err(why) => Err(why),
        };
        if let Err(why) = handled {
            crate::engine::add(&context.engine.counts.protocol_errors, 1);
            self.dismiss(why);
        }
        context.message = message;
    }

    /// A completion flag was set.
    pub(super) fn flag_set(&mut self) {
        self.watch.flag_set = true;
        // Where nobody watches any more, the client may sleep and not be seen.
        self.watch.called |= self.watch.state == Watching::No;
    }

    /// It is gone, and its control block with it.
    pub(super) fn forget_control_block(&mut self, context: &mut WorkerContext) {
        self.watch.state = self.stop_watching(context);
    }
}

/// Whether there is a word before the answers.
fn has_completion_flag(answers: u64) -> bool {
    answers >= (ControlBlock::LENGTH + ControlBlock::FLAG) as u64
        && answers.is_multiple_of(ControlBlock::FLAG as u64)
}

/// How many control blocks a worker watches: each costs a look in every round.
const MAX_WATCHED: usize = 8;
