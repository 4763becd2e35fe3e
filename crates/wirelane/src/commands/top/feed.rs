//! Where frames come from: this machine, or a recording. A thread of its own brings them, so that keys are heard
//! whatever a driver, a store or a disk does.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use doctor::watch::Frame;

use super::history;
use super::probe::Prober;
use super::record::Recording;
use super::replay::Replay;
use super::store::StoreWatch;
use crate::output::Failure;
use crate::watch::Watcher;

/// What a feed tells.
#[derive(Debug)]
pub(super) enum FeedEvent {
    Frame(Box<Frame>),
    /// What came before is of another time.
    Anew,
    /// Of a recording: which frame this is, from 1, and of how many.
    Place(usize, usize),
    /// The recording in progress, and how long it is; none once it has ended, with the reason if there is one.
    Recording(Option<(PathBuf, u64)>, Option<String>),
    /// There is nothing more, for the time being.
    End,
    /// A frame could not be had.
    Fault(Failure),
}

/// What a feed is told.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Order {
    Pause(bool),
    Every(Duration),
    /// Of a recording: so many frames on, or back.
    Step(isize),
    /// Begins to record into this file, or ends.
    Record(Option<PathBuf>),
}

/// Frames of this machine.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) watcher: Watcher,
    pub(super) store: StoreWatch,
    pub(super) prober: Option<Prober>,
    pub(super) every: Duration,
    pub(super) recording: Option<Recording>,
    /// The longest file that is recorded.
    pub(super) record_max: u64,
}

/// Frames of a recording.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) replay: Replay,
    /// How many times faster than it was; without, as fast as frames are taken.
    pub(super) speed: Option<f64>,
}

/// Begins. `tell` says whether anybody still listens.
pub(super) fn start(
    source: impl Source + Send + 'static,
    tell: impl Fn(FeedEvent) -> bool + Send + 'static,
) -> Result<Sender<Order>, Failure> {
    let (order, orders) = mpsc::channel();
    let thread = std::thread::Builder::new().name("wirelane-frames".to_owned());
    let thread = thread.spawn(move || {
        // That nobody listens any more is how it ends.
        let _ = source.run(&orders, &tell);
    });
    thread.map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
    Ok(order)
}

/// Brings frames until nobody listens, which is `None`.
pub(super) trait Source {
    fn run(self, orders: &Receiver<Order>, tell: &impl Fn(FeedEvent) -> bool) -> Option<()>;
}

impl Source for Live {
    fn run(mut self, orders: &Receiver<Order>, tell: &impl Fn(FeedEvent) -> bool) -> Option<()> {
        let mut paused = false;
        let mut next = Instant::now();
        loop {
            let left = (!paused).then(|| next.saturating_duration_since(Instant::now()));
            match heard(orders, left)? {
                Some(Order::Pause(pause)) => {
                    paused = pause;
                    self.prober.iter().for_each(|prober| prober.pause(pause));
                }
                Some(Order::Every(every)) => {
                    self.every = every;
                    next = Instant::now() + every;
                }
                Some(Order::Record(path)) => say(tell, self.record(path))?,
                Some(Order::Step(_)) => {}
                None => {
                    next = Instant::now() + self.every;
                    let frame = self.frame();
                    if let Some(told) = self.keep(&frame) {
                        say(tell, told)?;
                    }
                    say(tell, FeedEvent::Frame(Box::new(frame)))?;
                }
            }
        }
    }
}

impl Live {
    fn frame(&mut self) -> Frame {
        let patience = self.every.clamp(MIN_PATIENCE, MAX_PATIENCE);
        self.store.ask();
        let mut frame = self.watcher.frame(patience);
        let (store, run) = self.store.told(patience);
        frame.store = store;
        frame.runs.extend(run);
        frame.probe = self.prober.as_ref().map(Prober::take);
        frame
    }

    fn record(&mut self, path: Option<PathBuf>) -> FeedEvent {
        let begun = path.map(|path| Recording::create(&path, self.record_max)).transpose();
        let (recording, why) = match begun {
            Ok(recording) => (recording, None),
            Err(failure) => (None, Some(failure.to_string())),
        };
        self.recording = recording;
        FeedEvent::Recording(self.recording.as_ref().map(length), why)
    }

    /// A recording that fails ends, and nothing else does.
    fn keep(&mut self, frame: &Frame) -> Option<FeedEvent> {
        let kept = self.recording.as_mut()?.add(frame);
        if kept.is_err() {
            self.recording = None;
        }
        Some(FeedEvent::Recording(self.recording.as_ref().map(length), kept.err()))
    }
}

impl Source for Player {
    fn run(mut self, orders: &Receiver<Order>, tell: &impl Fn(FeedEvent) -> bool) -> Option<()> {
        let (mut at, last) = (0, self.replay.len() - 1);
        let mut paused = false;
        let mut shown = self.show(at..=at, tell)?;
        loop {
            if at == last && !paused {
                say(tell, FeedEvent::End)?;
                paused = true;
            }
            let wait = if paused { None } else { Some(self.gap(shown, at + 1)) };
            let target = match heard(orders, wait)? {
                None => at + 1,
                Some(Order::Pause(pause)) => {
                    paused = pause;
                    // Whoever plays on at the end wants it from the beginning.
                    if pause || at < last { at } else { 0 }
                }
                Some(Order::Step(step)) => at.saturating_add_signed(step).min(last),
                Some(Order::Every(_) | Order::Record(_)) => at,
            };
            if target < at {
                say(tell, FeedEvent::Anew)?;
                shown = self.show(target.saturating_sub(history::LENGTH)..=target, tell)?;
            } else if target > at {
                shown = self.show(at + 1..=target, tell)?;
            }
            at = target;
        }
    }
}

impl Player {
    /// Tells these frames, and when the last of them was.
    fn show(
        &mut self,
        numbers: std::ops::RangeInclusive<usize>,
        tell: &impl Fn(FeedEvent) -> bool,
    ) -> Option<u64> {
        let mut at_ms = 0;
        for number in numbers {
            say(tell, FeedEvent::Place(number + 1, self.replay.len()))?;
            match self.replay.frame(number) {
                Ok(frame) => {
                    at_ms = frame.at_ms;
                    say(tell, FeedEvent::Frame(Box::new(frame)))?;
                }
                Err(failure) => say(tell, FeedEvent::Fault(failure))?,
            }
        }
        Some(at_ms)
    }

    /// How long until the next.
    fn gap(&mut self, shown_ms: u64, next: usize) -> Duration {
        let Some(speed) = self.speed else { return Duration::ZERO };
        let next_ms = self.replay.frame(next).map_or(shown_ms, |frame| frame.at_ms);
        let gap = Duration::from_millis(next_ms.saturating_sub(shown_ms));
        gap.min(LONGEST_GAP).div_f64(speed)
    }
}

fn length(recording: &Recording) -> (PathBuf, u64) {
    (recording.path().to_owned(), recording.bytes())
}

/// The next order, if it comes in time; without a limit, whenever it comes. `None`: nobody gives orders any more.
fn heard(orders: &Receiver<Order>, limit: Option<Duration>) -> Option<Option<Order>> {
    let Some(limit) = limit else { return orders.recv().ok().map(Some) };
    match orders.recv_timeout(limit) {
        Ok(order) => Some(Some(order)),
        Err(RecvTimeoutError::Timeout) => Some(None),
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

fn say(tell: &impl Fn(FeedEvent) -> bool, told: FeedEvent) -> Option<()> {
    tell(told).then_some(())
}

/// How long a collector may take before a frame goes without it.
const MIN_PATIENCE: Duration = Duration::from_millis(500);
const MAX_PATIENCE: Duration = Duration::from_secs(2);
/// A machine that slept in the middle of a recording need not be waited for.
const LONGEST_GAP: Duration = Duration::from_secs(60);
