//! Two ends of a lane in one thread, with helper functions for the cases.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fabric::{
    Completion, Done, Fabric, Failure, Lane, Memory, Op, Pages, Region, Rights, Side, Window,
};

/// Two connected ends.
pub(crate) struct Pair {
    pub(crate) a: End,
    pub(crate) b: End,
    /// Advances the time, if it is simulated.
    pub(crate) step: Box<dyn FnMut() + Send>,
    /// The current time.
    pub(crate) clock: Box<dyn Fn() -> Duration>,
    /// Whether messages wait at the peer until it posts receives: with a link, or a shared receive queue.
    pub(crate) keeps_messages: bool,
    /// The longest operation to test.
    pub(crate) largest: usize,
    /// Whether it is a link: a refusal does not end it.
    pub(crate) is_link: bool,
}

/// One end.
pub(crate) struct End {
    pub(crate) fabric: Arc<dyn Fabric>,
    pub(crate) lane: Box<dyn Lane>,
    pub(crate) done: Vec<Completion>,
}

/// Advances simulated time until `ended`, for ends in other threads.
pub(crate) fn step_until(step: &mut (dyn FnMut() + Send), ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        step();
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Pair {
    /// Connects an end of each fabric, as two processes would.
    pub(crate) fn connect(a: Arc<dyn Fabric>, b: Arc<dyn Fabric>) -> Pair {
        let lanes = connect(&*a, &*b);
        let started = Instant::now();
        Pair {
            a: End { fabric: a, lane: lanes.0, done: Vec::new() },
            b: End { fabric: b, lane: lanes.1, done: Vec::new() },
            step: Box::new(|| ()),
            clock: Box::new(move || started.elapsed()),
            keeps_messages: false,
            largest: 1 << 30,
            is_link: false,
        }
    }

    /// Polls both ends once.
    pub(crate) fn poll_both(&mut self) {
        (self.step)();
        self.a.lane.poll(&mut self.a.done);
        self.b.lane.poll(&mut self.b.done);
    }

    /// Polls both ends until `a` has a completion.
    pub(crate) fn completion(&mut self) -> Completion {
        self.until("a completion at a", |pair| !pair.a.done.is_empty());
        self.a.done.remove(0)
    }

    /// Polls both ends until `b` has a completion.
    pub(crate) fn completion_at_b(&mut self) -> Completion {
        self.until("a completion at b", |pair| !pair.b.done.is_empty());
        self.b.done.remove(0)
    }

    /// Polls both ends until a condition is true; panics after a timeout.
    pub(crate) fn until(&mut self, what: &str, condition: impl Fn(&Pair) -> bool) {
        let limit = Instant::now() + TIMEOUT;
        while !condition(self) {
            assert!(Instant::now() < limit, "timeout: no {what}");
            self.poll_both();
        }
    }

    /// Runs an operation of `a`.
    pub(crate) fn run(&mut self, op: Op) -> Completion {
        let op_id = op.op_id;
        self.a.post(op);
        let completion = self.completion();
        assert_eq!(completion.op_id, op_id);
        completion
    }

    /// Runs an operation of `a` that must succeed.
    pub(crate) fn succeed(&mut self, op: Op) -> Done {
        self.run(op).outcome.expect("it succeeds")
    }

    /// Memory of `b` that `a` may access: `b`'s region and `a`'s window.
    pub(crate) fn shared(&mut self, length: usize, rights: Rights) -> (Region, Window) {
        let region = self.b.region(length, rights);
        let window = self.granted(&region);
        (region, window)
    }

    /// The window of `a` on a region of `b`.
    pub(crate) fn granted(&mut self, region: &Region) -> Window {
        let remote = self.b.lane.grant(region).expect("granted");
        self.a.lane.import(&remote).expect("imported")
    }

    /// Asserts that a lane is dead at both ends after a refusal. A link must still work.
    pub(crate) fn assert_ended(&mut self) {
        if self.is_link {
            assert_eq!(self.a.lane.stats().ended(), None);
            let (from, into) = (self.a.region_with(b"on"), self.b.region(8, Rights::NONE));
            self.b.post(Op::receive(902, into.slice(..)));
            assert_eq!(self.succeed(Op::send(903, from.slice(..))), Done::Placed);
            assert_eq!(self.completion_at_b().op_id, 902);
            return;
        }
        let region = self.a.region(8, Rights::NONE);
        self.a.post(Op::send(900, region.slice(..)));
        assert_eq!(self.completion_of(900), Err(Failure::Flushed));
        let region = self.b.region(8, Rights::NONE);
        self.b.post(Op::send(901, region.slice(..)));
        self.until("the flushed operation", |pair| pair.b.done.iter().any(|d| d.op_id == 901));
        let flushed = self.b.done.iter().find(|done| done.op_id == 901).expect("just seen");
        assert!(
            matches!(flushed.outcome, Err(Failure::Flushed | Failure::PeerGone)),
            "{flushed:?}"
        );
    }

    /// The outcome of one of `a`'s operations; others may complete before it.
    pub(crate) fn completion_of(&mut self, op_id: u64) -> Result<Done, Failure> {
        self.until("that completion", |pair| pair.a.done.iter().any(|done| done.op_id == op_id));
        let at = self.a.done.iter().position(|done| done.op_id == op_id).expect("just seen");
        self.a.done.remove(at).outcome
    }
}

impl End {
    pub(crate) fn post(&mut self, op: Op) {
        self.post_all(vec![op]);
    }

    /// Posts operations, all of which must fit.
    pub(crate) fn post_all(&mut self, ops: Vec<Op>) {
        let mut ops = VecDeque::from(ops);
        self.lane.post(&mut ops);
        assert!(ops.is_empty(), "{} operations did not fit", ops.len());
    }

    pub(crate) fn region(&self, length: usize, rights: Rights) -> Region {
        let memory = Memory::allocate(length.max(1), Pages::Plain).expect("memory");
        self.register(&memory, rights)
    }

    pub(crate) fn register(&self, memory: &Memory, rights: Rights) -> Region {
        self.fabric.register(memory, rights).expect("registered")
    }

    /// Registered memory with these bytes in it.
    pub(crate) fn region_with(&self, bytes: &[u8]) -> Region {
        let region = self.region(bytes.len(), Rights::NONE);
        region.memory().write(0, bytes);
        region
    }

    pub(crate) fn count(&self) -> usize {
        self.done.len()
    }

    pub(crate) fn done(&mut self) -> &mut Vec<Completion> {
        &mut self.done
    }
}

/// Connects two lanes, each on a thread, as two processes would.
pub(crate) fn connect(a: &dyn Fabric, b: &dyn Fabric) -> (Box<dyn Lane>, Box<dyn Lane>) {
    let (dial, accept) = (
        a.prepare_lane(Side::Dial).expect("prepared"),
        b.prepare_lane(Side::Accept).expect("prepared"),
    );
    let (to_a, to_b) = (accept.offer(), dial.offer());
    std::thread::scope(|scope| {
        let accepted = scope.spawn(move || accept.connect(&to_b, TIMEOUT).expect("accepted"));
        let dialled = dial.connect(&to_a, TIMEOUT).expect("dialled");
        (dialled, accepted.join().expect("no panic"))
    })
}

/// Bytes that differ from their neighbours and from other seeds.
pub(crate) fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

pub(crate) fn read(region: &Region, offset: usize, length: usize) -> Vec<u8> {
    region.slice(offset..offset + length).to_vec()
}

/// Longer than any case takes beside any load: encrypting the largest operation takes CPU time.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);
