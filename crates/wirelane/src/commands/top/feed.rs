//! Source of samples: this machine, or a recording. It runs on a separate thread, so that keys work while a driver, a
//! store or a disk hangs.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use doctor::monitoring::MachineSample;

use super::history;
use super::probe::Prober;
use super::record::Recording;
use super::replay::Replay;
use super::store::StorePoller;
use crate::monitoring::Monitor;
use crate::output::Failure;

/// An event of a feed.
#[derive(Debug)]
pub(super) enum FeedEvent {
    Sample(Box<MachineSample>),
    /// The next sample does not follow the previous one: discard the history.
    Reset,
    /// Replay: the number of the sample, from 1, and of how many.
    Position(usize, usize),
    /// The recording in progress and its length; `None` after it ended, with the reason if it failed.
    Recording(Option<(PathBuf, u64)>, Option<String>),
    /// Replay: the last sample was sent.
    End,
    /// A sample could not be read.
    Error(Failure),
}

/// A command to a feed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FeedCommand {
    Pause(bool),
    SetInterval(Duration),
    /// Replay: this many samples forward, or back.
    Step(isize),
    /// Starts to record to this file, or stops.
    Record(Option<PathBuf>),
}

/// Samples of this machine.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) monitor: Monitor,
    pub(super) store: Option<StorePoller>,
    pub(super) prober: Option<Prober>,
    pub(super) interval: Duration,
    pub(super) recording: Option<Recording>,
    /// Maximum length of a recording, in bytes.
    pub(super) record_max: u64,
}

/// Samples of a recording.
#[derive(Debug)]
pub(super) struct Replayer {
    pub(super) replay: Replay,
    /// Speed as a factor; `None`: as fast as possible.
    pub(super) speed: Option<f64>,
}

/// Starts a feed. `send` returns false when the receiver is gone.
pub(super) fn start(
    source: impl Source + Send + 'static,
    send: impl Fn(FeedEvent) -> bool + Send + 'static,
) -> Result<Sender<FeedCommand>, Failure> {
    let (sender, commands) = mpsc::channel();
    let thread = std::thread::Builder::new().name("wirelane-samples".to_owned());
    let thread = thread.spawn(move || {
        // It ends when the receiver is gone.
        let _ = source.run(&commands, &send);
    });
    thread.map_err(|error| Failure::failed(format!("start a thread: {error}")))?;
    Ok(sender)
}

/// Sends samples until the receiver is gone, and returns `None`.
pub(super) trait Source {
    fn run(self, commands: &Receiver<FeedCommand>, send: &impl Fn(FeedEvent) -> bool)
    -> Option<()>;
}

impl Source for Live {
    fn run(
        mut self,
        commands: &Receiver<FeedCommand>,
        send: &impl Fn(FeedEvent) -> bool,
    ) -> Option<()> {
        let mut paused = false;
        let mut next = Instant::now();
        loop {
            let left = (!paused).then(|| next.saturating_duration_since(Instant::now()));
            match next_command(commands, left)? {
                Some(FeedCommand::Pause(pause)) => {
                    paused = pause;
                    self.prober.iter().for_each(|prober| prober.pause(pause));
                }
                Some(FeedCommand::SetInterval(interval)) => {
                    self.interval = interval;
                    next = Instant::now() + interval;
                }
                Some(FeedCommand::Record(path)) => send_event(send, self.record(path))?,
                Some(FeedCommand::Step(_)) => {}
                None => {
                    next = Instant::now() + self.interval;
                    let sample = self.sample();
                    if let Some(event) = self.add_to_recording(&sample) {
                        send_event(send, event)?;
                    }
                    send_event(send, FeedEvent::Sample(Box::new(sample)))?;
                }
            }
        }
    }
}

impl Live {
    fn sample(&mut self) -> MachineSample {
        let timeout = self.interval.clamp(MIN_COLLECTOR_TIMEOUT, MAX_COLLECTOR_TIMEOUT);
        if let Some(store) = &self.store {
            store.request();
        }
        let mut sample = self.monitor.sample(timeout);
        if let Some(poller) = &self.store {
            let (store, run) = poller.receive(timeout);
            sample.store = store;
            sample.runs.extend(run);
        }
        sample.probe = self.prober.as_ref().map(Prober::take);
        sample
    }

    fn record(&mut self, path: Option<PathBuf>) -> FeedEvent {
        let created = path.map(|path| Recording::create(&path, self.record_max)).transpose();
        let (recording, why) = match created {
            Ok(recording) => (recording, None),
            Err(failure) => (None, Some(failure.to_string())),
        };
        self.recording = recording;
        FeedEvent::Recording(self.recording.as_ref().map(length), why)
    }

    /// Adds a sample to the recording. A failure ends only the recording.
    fn add_to_recording(&mut self, sample: &MachineSample) -> Option<FeedEvent> {
        let added = self.recording.as_mut()?.add(sample);
        if added.is_err() {
            self.recording = None;
        }
        Some(FeedEvent::Recording(self.recording.as_ref().map(length), added.err()))
    }
}

impl Source for Replayer {
    fn run(
        mut self,
        commands: &Receiver<FeedCommand>,
        send: &impl Fn(FeedEvent) -> bool,
    ) -> Option<()> {
        let (mut at, last) = (0, self.replay.len() - 1);
        let mut paused = false;
        let mut shown_ms = self.show(at..=at, send)?;
        loop {
            if at == last && !paused {
                send_event(send, FeedEvent::End)?;
                paused = true;
            }
            let wait = if paused { None } else { Some(self.gap(shown_ms, at + 1)) };
            let target = match next_command(commands, wait)? {
                None => at + 1,
                Some(FeedCommand::Pause(pause)) => {
                    paused = pause;
                    // Resuming at the end starts from the beginning.
                    if pause || at < last { at } else { 0 }
                }
                Some(FeedCommand::Step(step)) => at.saturating_add_signed(step).min(last),
                Some(FeedCommand::SetInterval(_) | FeedCommand::Record(_)) => at,
            };
            if target < at {
                send_event(send, FeedEvent::Reset)?;
                shown_ms = self.show(target.saturating_sub(history::LENGTH)..=target, send)?;
            } else if target > at {
                shown_ms = self.show(at + 1..=target, send)?;
            }
            at = target;
        }
    }
}

impl Replayer {
    /// Sends these samples, and returns the time of the last.
    fn show(
        &mut self,
        numbers: std::ops::RangeInclusive<usize>,
        send: &impl Fn(FeedEvent) -> bool,
    ) -> Option<u64> {
        let mut at_ms = 0;
        for number in numbers {
            send_event(send, FeedEvent::Position(number + 1, self.replay.len()))?;
            match self.replay.sample(number) {
                Ok(sample) => {
                    at_ms = sample.at_ms;
                    send_event(send, FeedEvent::Sample(Box::new(sample)))?;
                }
                Err(failure) => send_event(send, FeedEvent::Error(failure))?,
            }
        }
        Some(at_ms)
    }

    /// Time until the next sample.
    fn gap(&mut self, shown_ms: u64, next: usize) -> Duration {
        let Some(speed) = self.speed else { return Duration::ZERO };
        let next_ms = self.replay.sample(next).map_or(shown_ms, |sample| sample.at_ms);
        let gap = Duration::from_millis(next_ms.saturating_sub(shown_ms));
        gap.min(MAX_GAP).div_f64(speed)
    }
}

fn length(recording: &Recording) -> (PathBuf, u64) {
    (recording.path().to_owned(), recording.bytes())
}

/// The next command, or `Some(None)` after `limit`; without a limit, waits. `None`: the sender is gone.
fn next_command(
    commands: &Receiver<FeedCommand>,
    limit: Option<Duration>,
) -> Option<Option<FeedCommand>> {
    let Some(limit) = limit else { return commands.recv().ok().map(Some) };
    match commands.recv_timeout(limit) {
        Ok(order) => Some(Some(order)),
        Err(RecvTimeoutError::Timeout) => Some(None),
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

fn send_event(send: &impl Fn(FeedEvent) -> bool, event: FeedEvent) -> Option<()> {
    send(event).then_some(())
}

/// Limits of the time that a sample waits for a collector.
const MIN_COLLECTOR_TIMEOUT: Duration = Duration::from_millis(500);
const MAX_COLLECTOR_TIMEOUT: Duration = Duration::from_secs(2);
/// A longer gap in a recording (the machine was suspended) is shortened to this.
const MAX_GAP: Duration = Duration::from_secs(60);
