//! Events of a job: from its supervisors, and Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use remote::SupervisorEvent;

use crate::output::Failure;
use crate::signals;

pub(super) struct Events {
    queue: Receiver<Event>,
    sender: SyncSender<Event>,
    /// Set by Ctrl-C, whose event may be lost if the queue is full.
    interrupted: Arc<AtomicBool>,
}

pub(super) enum Event {
    /// Of a supervisor, by its number.
    Supervisor(usize, SupervisorEvent),
    Interrupted,
}

impl Events {
    /// Handles Ctrl-C as an event from now on, instead of ending the program.
    pub(super) fn new() -> Result<Self, Failure> {
        let (sender, queue) = sync_channel(QUEUE_EVENTS);
        let (interrupted, waker) = (Arc::new(AtomicBool::new(false)), sender.clone());
        let flag = interrupted.clone();
        signals::on_first_signal(move || {
            flag.store(true, Relaxed);
            // If the queue is full, the receiver is not waiting.
            let _ = waker.try_send(Event::Interrupted);
        })?;
        Ok(Events { queue, sender, interrupted })
    }

    /// Sends the events of the supervisor with this number; returns false once the receiver is gone.
    pub(super) fn sender(
        &self,
        number: usize,
    ) -> impl Fn(SupervisorEvent) -> bool + Clone + Send + 'static {
        let sender = self.sender.clone();
        move |event| sender.send(Event::Supervisor(number, event)).is_ok()
    }

    /// The next event, if one arrives within the timeout.
    pub(super) fn next(&self, timeout: Duration) -> Option<Event> {
        self.queue.recv_timeout(timeout).ok()
    }

    /// Whether Ctrl-C was pressed.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }
}

const QUEUE_EVENTS: usize = 1024;
