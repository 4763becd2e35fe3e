//! What is asked of a store, over lines that come and go.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, Explanation, Report};
use fabric::{Lane, Memory, Pages, Region, Rights};
use kv_proto::wire::{Grant, Limits, Request};

use crate::connection::Connection;
use crate::destination::Destination;
use crate::error::{Error, Kind};
use crate::in_flight::{Answered, Outcome, PendingBatches};
use crate::outbox::Outbox;
use crate::receive_buffer::{Lease, ReceiveBuffer};
use crate::settings::Settings;

/// Everything of a client but how it waits.
pub(crate) struct Core {
    settings: Settings,
    endpoint: Endpoint,
    receive_buffer: Arc<ReceiveBuffer>,
    line: Option<Connection>,
    outbox: Outbox,
    /// A line that is lost, and not yet taken apart: that may take a moment.
    lost_line: Option<Connection>,
    /// What a lost line has not answered.
    orphans: PendingBatches,
    /// What became of requests without a store's answer.
    early: Vec<Answered>,
    session: Option<[u8; 16]>,
    sequence: u64,
    /// Which of the servers is called next.
    server: usize,
    /// Memory of the caller's that is granted on every line, by its number.
    buffers: Vec<(u32, Region)>,
    last_buffer: u32,
    lost: Option<Error>,
}

impl Core {
    /// Registers the receive buffer, and calls the first store that answers.
    pub(crate) fn connect(settings: Settings) -> Result<Self, Error> {
        if settings.servers.is_empty() {
            return Err(Error::new(Kind::Misuse, "connect to a store: no address given"));
        }
        let endpoint = Endpoint::new(settings.link.clone())?;
        let memory = Memory::allocate(settings.buffer.max(MIN_BUFFER), Pages::Auto)?;
        let rights = Rights { read: true, write: true, atomic: false };
        let receive_buffer = ReceiveBuffer::new(endpoint.register(&memory, rights)?);
        let deadline = Instant::now() + settings.deadline;
        let mut core = Core {
            settings,
            endpoint,
            receive_buffer,
            line: None,
            lost_line: None,
            outbox: Outbox::default(),
            orphans: PendingBatches::default(),
            early: Vec::new(),
            session: None,
            sequence: 0,
            server: 0,
            buffers: Vec::new(),
            last_buffer: 0,
            lost: None,
        };
        core.connect_once(deadline)?;
        Ok(core)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn receive_buffer(&self) -> &Arc<ReceiveBuffer> {
        &self.receive_buffer
    }

    /// What the store takes, as it last said.
    pub(crate) fn limits(&self) -> Option<&Limits> {
        self.line.as_ref().map(|line| &line.welcome.limits)
    }

    /// How the store is reached, and why so.
    pub(crate) fn explain(&self) -> Option<Explanation> {
        self.line.as_ref().map(|line| line.link().report().explain())
    }

    /// The same, as it changes.
    pub(crate) fn report(&self) -> Option<Arc<Report>> {
        self.line.as_ref().map(|line| line.link().report().clone())
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.line.is_some()
    }

    /// Whether values can be read where they lie by the store itself, at no cost worth speaking of.
    pub(crate) fn is_near(&self) -> bool {
        self.line.as_ref().is_some_and(Connection::is_near)
    }

    /// The number of the next write.
    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Asks, together with what is asked before the next flush. `Busy`: take answers first.
    pub(crate) fn ask(
        &mut self,
        token: u64,
        request: &Request<'_>,
        lease: &mut Option<Lease>,
    ) -> Result<(), Error> {
        let Some(limits) = self.limits().copied() else { return Err(self.not_connected()) };
        if !self.outbox.fits(request, &limits) {
            self.flush()?;
            if !self.outbox.fits(request, &limits) {
                let text = "ask the store: the request is longer than the store takes";
                return Err(Error::new(Kind::TooLong, text));
            }
        }
        self.outbox.push(token, request, lease.take());
        Ok(())
    }

    /// Sends what was asked.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if self.outbox.is_empty() {
            return Ok(());
        }
        let Some(line) = &mut self.line else { return Err(self.not_connected()) };
        if line.is_full() {
            let text = "ask the store: as much is in flight as it takes — take answers first";
            return Err(Error::new(Kind::Busy, text));
        }
        let launched = line.launch(&mut self.outbox);
        if let Err(error) = &launched
            && error.kind() == Kind::Gone
        {
            self.lose(error.clone());
        }
        launched
    }

    /// Gives out answers, without waiting.
    #[inline]
    pub(crate) fn poll(&mut self, mut give: impl FnMut(u64, Outcome)) {
        if self.give_early(&mut give) {
            return;
        }
        if let Some(line) = &mut self.line
            && let Err(error) = line.poll(&mut give)
        {
            self.lose(error);
        }
    }

    /// Gives out answers, and waits for the first of them up to a limit.
    pub(crate) fn wait(&mut self, limit: Duration, mut give: impl FnMut(u64, Outcome)) {
        if self.give_early(&mut give) {
            return;
        }
        if let Some(line) = &mut self.line
            && let Err(error) = line.wait(&mut give, limit)
        {
            self.lose(error);
        }
    }

    /// Gives out answers that come within a few microseconds, if that is how they come.
    #[inline]
    pub(crate) fn glance(&mut self, mut give: impl FnMut(u64, Outcome)) {
        if let Some(line) = &mut self.line
            && let Err(error) = line.glance(&mut give)
        {
            self.lose(error);
        }
    }

    #[inline]
    fn give_early(&mut self, give: &mut impl FnMut(u64, Outcome)) -> bool {
        let any = !self.early.is_empty();
        self.early.drain(..).for_each(|Answered { token, outcome }| give(token, outcome));
        any
    }

    /// The line is gone; what was in flight waits for the next.
    fn lose(&mut self, error: Error) {
        self.lost_line = self.line.take();
        self.lost = Some(error);
        // Whoever is asked next, it is somebody else first.
        self.server += 1;
    }

    fn not_connected(&self) -> Error {
        let why = self.lost.as_ref().map_or("not connected".to_owned(), ToString::to_string);
        Error::new(Kind::Gone, format!("ask the store: {why}"))
    }

    /// Calls until a store answers, with growing pauses, up to a deadline.
    pub(crate) fn reconnect(&mut self, deadline: Instant) -> Result<(), Error> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.connect_once(deadline) {
                Err(error) if !error.may_pass() || Instant::now() + pause >= deadline => {
                    return Err(error);
                }
                Err(_) => std::thread::sleep(pause),
                Ok(()) => return Ok(()),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Calls each server once.
    pub(crate) fn connect_once(&mut self, deadline: Instant) -> Result<(), Error> {
        if let Some(line) = self.lost_line.take() {
            self.orphans = line.close();
        }
        let servers = self.settings.servers.clone();
        let mut failed: Option<Error> = None;
        for _ in 0..servers.len() {
            let server = servers[self.server % servers.len()];
            let left = deadline.saturating_duration_since(Instant::now());
            // Others must have their turn.
            let limit = if servers.len() > 1 { left.min(ONE_SERVER) } else { left };
            let source = self.settings.credentials.as_ref();
            let to = Destination { server, source, limit };
            match Connection::open(&self.endpoint, &self.receive_buffer, to, self.session) {
                Ok(line) => return self.begin(line),
                Err(error) => {
                    self.server += 1;
                    failed = Some(failed.map_or(error.clone(), |first| first.and(&error)));
                }
            }
        }
        Err(failed.unwrap_or_else(|| self.not_connected()))
    }

    fn begin(&mut self, mut line: Connection) -> Result<(), Error> {
        for (number, region) in &self.buffers {
            let region = line.link_mut().grant(region)?.to_bytes();
            line.say(&Grant { number: *number, region }.to_bytes())?;
        }
        // Together: what is in flight belongs to the session that is called by next time. One that is new does not know of
        // it, and who took it for known would have it done once more.
        self.session = Some(line.welcome.session);
        line.resume(std::mem::take(&mut self.orphans), &mut self.early);
        self.line = Some(line);
        Ok(())
    }

    /// Lets the store use memory of the caller's, under a number.
    pub(crate) fn register(&mut self, memory: &Memory) -> Result<(u32, Region), Error> {
        let most = self.limits().map_or(usize::MAX, |limits| limits.regions.into());
        if self.buffers.len() >= most {
            let text = format!(
                "register memory with the store: it takes {most} at most — forget some, or use larger ones"
            );
            return Err(Error::new(Kind::Misuse, text));
        }
        let rights = Rights { read: true, write: true, atomic: false };
        let region = self.endpoint.register(memory, rights)?;
        self.last_buffer += 1;
        let number = self.last_buffer;
        if let Some(line) = &mut self.line {
            let granted = line.link_mut().grant(&region)?.to_bytes();
            line.say(&Grant { number, region: granted }.to_bytes())?;
        }
        self.buffers.push((number, region.clone()));
        Ok((number, region))
    }

    /// Takes memory back.
    pub(crate) fn forget(&mut self, number: u32) -> Result<(), Error> {
        self.buffers.retain(|(other, _)| *other != number);
        match &mut self.line {
            Some(line) => line.say(&Grant::forget(number)),
            None => Ok(()),
        }
    }

    /// Prepares to sleep on the descriptor; `false`: do not.
    pub(crate) fn arm(&mut self) -> bool {
        self.early.is_empty() && self.line.as_mut().is_some_and(Connection::arm)
    }

    /// What is readable when there is something to do; another one after each connecting.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.line.as_ref().map(Connection::fd)
    }

    /// Whether something was asked that could not be sent yet.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Whether nothing is in flight that could give receive buffer back.
    pub(crate) fn is_still(&self) -> bool {
        self.orphans.is_empty()
            && self.early.is_empty()
            && self.lost_line.as_ref().is_none_or(|line| line.batches.is_empty())
            && self.line.as_ref().is_none_or(|line| line.batches.is_empty())
    }

    /// What could not be sent is given up.
    pub(crate) fn give_up_unsent(&mut self) {
        let calls = self.outbox.empty(Vec::new()).into_iter();
        self.early
            .extend(calls.map(|call| Answered { token: call.token, outcome: Outcome::Unsent }));
    }
}

/// How long to wait before calling again: twice as long each time.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(20);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const ONE_SERVER: Duration = Duration::from_secs(5);
/// Less would not hold the answers of a few batches.
const MIN_BUFFER: usize = 1 << 20;
