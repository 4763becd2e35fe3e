//! What wakes who waits for a job: its supervisors, and Ctrl-C.

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
    /// Set by Ctrl-C. The queue may be full just then, so that its event alone could be lost.
    interrupted: Arc<AtomicBool>,
}

pub(super) enum Event {
    /// Of a supervisor, by its number.
    Supervisor(usize, SupervisorEvent),
    Interrupted,
}

impl Events {
    /// From now on Ctrl-C is an event, and does not end the program.
    pub(super) fn new() -> Result<Self, Failure> {
        let (sender, queue) = sync_channel(QUEUE);
        let (interrupted, waker) = (Arc::new(AtomicBool::new(false)), sender.clone());
        let flag = interrupted.clone();
        signals::on_first_signal(move || {
            flag.store(true, Relaxed);
            // Where there is no room, somebody is awake.
            let _ = waker.try_send(Event::Interrupted);
        })?;
        Ok(Events { queue, sender, interrupted })
    }

    /// Takes the events of the supervisor with this number; false once nobody wants them.
    pub(super) fn sender(
        &self,
        number: usize,
    ) -> impl Fn(SupervisorEvent) -> bool + Clone + Send + 'static {
        let sender = self.sender.clone();
        move |event| sender.send(Event::Supervisor(number, event)).is_ok()
    }

    /// The next event, if one comes within this time.
    pub(super) fn next(&self, patience: Duration) -> Option<Event> {
        self.queue.recv_timeout(patience).ok()
    }

    /// Whether Ctrl-C was pressed.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }
}

const QUEUE: usize = 1024;
