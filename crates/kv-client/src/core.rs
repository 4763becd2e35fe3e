//! The common part of both clients: requests to a store, over connections that may be lost and made again.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::link::{Endpoint, LinkStatus, Report};
use fabric::{Lane, Memory, Pages, Region, Rights};
use kv_proto::wire::{Grant, Limits, Request};

use crate::address::Address;
use crate::client_buffer::{ClientBuffer, Lease};
use crate::connection::Connection;
use crate::destination::Destination;
use crate::error::{Error, ErrorKind};
use crate::handle::Handles;
use crate::next_batch::NextBatch;
use crate::outcome::{Outcome, RequestOutcome};
use crate::pending_batches::PendingBatches;
use crate::request_id::RequestId;
use crate::retry::Pauses;
use crate::settings::Settings;

/// The common part of both clients, which differ in how they wait.
pub(crate) struct ClientCore {
    settings: Settings,
    endpoint: Endpoint,
    client_buffer: Arc<ClientBuffer>,
    connection: Option<Connection>,
    next_batch: NextBatch,
    /// A lost connection that is not closed yet, since closing may take a moment.
    lost_connection: Option<Connection>,
    /// Batches in flight when the last connection was lost.
    unanswered: PendingBatches,
    /// Outcomes of requests that no store answered, to be delivered.
    unreported: Vec<RequestOutcome>,
    session: Option<[u8; 16]>,
    sequence: u64,
    /// The index of the server that is tried next.
    server: usize,
    /// The caller's registered memory, granted on every connection, by its number.
    buffers: Vec<(u32, Region)>,
    last_buffer: u32,
    handles: Handles,
    lost: Option<Error>,
}

impl ClientCore {
    /// Registers the client buffer, and connects to the first store that answers.
    pub(crate) fn connect(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let failed = |call: &str| {
            let call = call.to_owned();
            move |error| Error::of_fabric(call, error)
        };
        let endpoint =
            Endpoint::new(settings.link.clone()).map_err(failed("open the transports"))?;
        let memory = Memory::allocate(settings.client_buffer_bytes, Pages::Auto)
            .map_err(failed("allocate the client buffer"))?;
        let rights = Rights { read: true, write: true, atomic: false };
        let region =
            endpoint.register(&memory, rights).map_err(failed("register the client buffer"))?;
        let client_buffer = ClientBuffer::new(region);
        let deadline = Instant::now() + settings.timeout;
        let mut core = ClientCore {
            settings,
            endpoint,
            client_buffer,
            connection: None,
            lost_connection: None,
            next_batch: NextBatch::default(),
            unanswered: PendingBatches::default(),
            unreported: Vec::new(),
            session: None,
            sequence: 0,
            server: 0,
            buffers: Vec::new(),
            last_buffer: 0,
            handles: Handles::default(),
            lost: None,
        };
        core.connect_once(deadline)?;
        Ok(core)
    }

    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.settings.timeout = timeout;
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn client_buffer(&self) -> &Arc<ClientBuffer> {
        &self.client_buffer
    }

    /// The limits from the store's hello.
    pub(crate) fn limits(&self) -> Option<&Limits> {
        self.connection.as_ref().map(|connection| &connection.hello.limits)
    }

    /// The transport that the connection uses, and why.
    pub(crate) fn link_status(&self) -> Option<LinkStatus> {
        self.connection.as_ref().map(|connection| connection.link().report().status())
    }

    /// The link's report, which is updated.
    pub(crate) fn report(&self) -> Option<Arc<Report>> {
        self.connection.as_ref().map(|connection| connection.link().report().clone())
    }

    /// The number of the connection: handles are valid on one.
    #[inline]
    pub(crate) fn connection_number(&self) -> u64 {
        self.handles.connection_number()
    }

    /// Makes and closes handles.
    pub(crate) fn handles(&self) -> &Handles {
        &self.handles
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Whether the store maps our memory, so that it reads values there at almost no cost.
    pub(crate) fn store_maps_our_memory(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::store_maps_our_memory)
    }

    /// The sequence of the next write.
    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Adds a request to the next batch. `ClientLimit`: take answers first.
    pub(crate) fn submit(
        &mut self,
        request_id: RequestId,
        request: &Request<'_>,
        lease: &mut Option<Lease>,
    ) -> Result<(), Error> {
        let Some(limits) = self.limits().copied() else { return Err(self.not_connected()) };
        if !self.next_batch.fits(request, &limits) {
            self.send()?;
            if !self.next_batch.fits(request, &limits) {
                let text = "send to the store: the request is longer than the store accepts";
                return Err(Error::new(ErrorKind::TooLong, text));
            }
        }
        self.next_batch.push(request_id, request, lease.take());
        Ok(())
    }

    /// Sends the next batch, and closes handles that were dropped.
    #[inline]
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if self.handles.any_dropped() {
            self.close_dropped();
        }
        self.send()
    }

    #[cold]
    fn close_dropped(&mut self) {
        for handle in self.handles.take_dropped() {
            // The answer is not needed.
            let closed = self.submit(RequestId::NONE, &Request::Close { handle }, &mut None);
            if closed.is_err_and(|error| error.kind() == ErrorKind::ClientLimit) {
                self.handles.put_back(handle);
            }
        }
    }

    fn send(&mut self) -> Result<(), Error> {
        if self.next_batch.is_empty() {
            return Ok(());
        }
        let Some(connection) = &mut self.connection else { return Err(self.not_connected()) };
        if connection.is_full() {
            let text =
                "send to the store: its limit of batches in flight is reached — take answers first";
            return Err(Error::new(ErrorKind::ClientLimit, text));
        }
        let sent = connection.send_batch(&mut self.next_batch);
        if let Err(error) = &sent
            && error.kind() == ErrorKind::Unavailable
        {
            self.lose(error.clone());
        }
        sent
    }

    /// Delivers answers, without waiting.
    #[inline]
    pub(crate) fn poll(&mut self, mut complete: impl FnMut(RequestId, Outcome)) {
        if self.deliver_unreported(&mut complete) {
            return;
        }
        if let Some(connection) = &mut self.connection
            && let Err(error) = connection.poll(&mut complete)
        {
            self.lose(error);
        }
    }

    /// Delivers answers, and waits for the first of them up to a limit.
    pub(crate) fn wait(&mut self, limit: Duration, mut complete: impl FnMut(RequestId, Outcome)) {
        if self.deliver_unreported(&mut complete) {
            return;
        }
        if let Some(connection) = &mut self.connection
            && let Err(error) = connection.wait(&mut complete, limit)
        {
            self.lose(error);
        }
    }

    /// Delivers answers that arrive within a few microseconds, over shared memory.
    #[inline]
    pub(crate) fn poll_briefly(&mut self, mut complete: impl FnMut(RequestId, Outcome)) {
        if let Some(connection) = &mut self.connection
            && let Err(error) = connection.poll_briefly(&mut complete)
        {
            self.lose(error);
        }
    }

    #[inline]
    fn deliver_unreported(&mut self, complete: &mut impl FnMut(RequestId, Outcome)) -> bool {
        let any = !self.unreported.is_empty();
        self.unreported
            .drain(..)
            .for_each(|RequestOutcome { request_id, outcome }| complete(request_id, outcome));
        any
    }

    /// The connection is lost; batches in flight wait for the next one.
    fn lose(&mut self, error: Error) {
        self.lost_connection = self.connection.take();
        self.next_batch.detach_handles();
        self.lost = Some(error);
        // The next attempt begins with another server.
        self.server += 1;
    }

    fn not_connected(&self) -> Error {
        let error = Error::new(ErrorKind::Unavailable, "send to the store: not connected");
        match &self.lost {
            Some(lost) => error.because(lost.clone()),
            None => error,
        }
    }

    /// Connects, with growing pauses between attempts, up to a deadline.
    pub(crate) fn reconnect(&mut self, deadline: Instant) -> Result<(), Error> {
        let mut pauses = Pauses::new();
        loop {
            let Err(error) = self.connect_once(deadline) else { return Ok(()) };
            let pause = pauses.next();
            if !error.is_transient() || Instant::now() + pause >= deadline {
                return Err(error);
            }
            std::thread::sleep(pause);
        }
    }

    /// Tries each server once.
    pub(crate) fn connect_once(&mut self, deadline: Instant) -> Result<(), Error> {
        if let Some(connection) = self.lost_connection.take() {
            self.unanswered = connection.close();
        }
        let servers = self.settings.servers.len();
        let mut failed = None;
        for _ in 0..servers {
            match self.connect_to(&self.settings.servers[self.server % servers], deadline) {
                Ok(connection) => return self.begin(connection),
                Err(error) => {
                    self.server += 1;
                    failed = Some(all_of(failed, error));
                }
            }
        }
        Err(failed.unwrap_or_else(|| self.not_connected()))
    }

    /// Tries each address of a server once.
    fn connect_to(&self, server: &Address, deadline: Instant) -> Result<Connection, Error> {
        let sockets = server.resolve()?;
        let several = self.settings.servers.len() > 1 || sockets.len() > 1;
        let mut failed = None;
        for socket in sockets {
            let left = deadline.saturating_duration_since(Instant::now());
            // The other addresses need time too.
            let limit = if several { left.min(ADDRESS_TIMEOUT) } else { left };
            let source = self.settings.credentials.as_ref();
            let to = Destination { server, socket, source, limit };
            match Connection::open(&self.endpoint, &self.client_buffer, &to, self.session) {
                Ok(connection) => return Ok(connection),
                Err(error) => failed = Some(all_of(failed, error)),
            }
        }
        Err(failed.unwrap_or_else(|| self.not_connected()))
    }

    fn begin(&mut self, mut connection: Connection) -> Result<(), Error> {
        if let Err(error) = self.grant_buffers(&mut connection) {
            // The store keeps a session that the next connection resumes; a new one ends with its connection.
            if self.session == Some(connection.hello.session) {
                connection.close();
            }
            return Err(error);
        }
        // Both together: batches in flight belong to the session that the next connection resumes. A new session does not
        // know them, and resending them there could do a write twice.
        self.session = Some(connection.hello.session);
        self.handles.renew();
        let unanswered = std::mem::take(&mut self.unanswered);
        connection.resume(unanswered, &self.handles, &mut self.unreported);
        self.connection = Some(connection);
        Ok(())
    }

    /// Grants the memory that the caller has registered to the store of a new connection.
    fn grant_buffers(&self, connection: &mut Connection) -> Result<(), Error> {
        for (number, region) in &self.buffers {
            let region = connection.link_mut().grant(region).map_err(grant_failed)?.to_bytes();
            connection.send_grant(&Grant { number: *number, region }.to_bytes())?;
        }
        Ok(())
    }

    /// Grants the caller's memory to the store, under a number.
    pub(crate) fn register(&mut self, memory: &Memory) -> Result<(u32, Region), Error> {
        let max = self.limits().map_or(usize::MAX, |limits| limits.regions.into());
        if self.buffers.len() >= max {
            let text = format!(
                "register memory with the store: its limit is {max} regions — unregister some, or use larger ones"
            );
            return Err(Error::new(ErrorKind::Misuse, text));
        }
        let rights = Rights { read: true, write: true, atomic: false };
        let region = self
            .endpoint
            .register(memory, rights)
            .map_err(|error| Error::of_fabric("register memory", error))?;
        self.last_buffer += 1;
        let number = self.last_buffer;
        if let Some(connection) = &mut self.connection {
            let granted = connection.link_mut().grant(&region).map_err(grant_failed)?.to_bytes();
            connection.send_grant(&Grant { number, region: granted }.to_bytes())?;
        }
        self.buffers.push((number, region.clone()));
        Ok((number, region))
    }

    /// Revokes a grant.
    pub(crate) fn unregister(&mut self, number: u32) -> Result<(), Error> {
        self.buffers.retain(|(other, _)| *other != number);
        match &mut self.connection {
            Some(connection) => connection.send_grant(&Grant::revoke(number)),
            None => Ok(()),
        }
    }

    /// Prepares to sleep on the descriptor; `false`: do not sleep.
    pub(crate) fn arm(&mut self) -> bool {
        self.unreported.is_empty() && self.connection.as_mut().is_some_and(Connection::arm)
    }

    /// The descriptor that is readable when the connection has events; it changes with each connection.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.connection.as_ref().map(Connection::fd)
    }

    /// Whether requests wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.next_batch.is_empty()
    }

    /// Whether no request is in flight that could free a part of the client buffer.
    pub(crate) fn is_idle(&self) -> bool {
        self.unanswered.is_empty()
            && self.unreported.is_empty()
            && self.lost_connection.as_ref().is_none_or(|connection| connection.batches.is_empty())
            && self.connection.as_ref().is_none_or(|connection| connection.batches.is_empty())
    }

    /// Discards requests that could not be sent.
    pub(crate) fn give_up_unsent(&mut self) {
        let requests = self.next_batch.empty(Vec::new()).into_iter();
        self.unreported.extend(requests.map(|request| RequestOutcome {
            request_id: request.request_id,
            outcome: Outcome::Unsent,
        }));
    }
}

fn all_of(failed: Option<Error>, error: Error) -> Error {
    match failed {
        Some(first) => first.and(error),
        None => error,
    }
}

fn grant_failed(error: fabric::Error) -> Error {
    Error::of_fabric("grant memory to the store", error)
}

/// For one address, if there are others.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(5);
