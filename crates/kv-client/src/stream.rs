//! Values in chunks: for values longer than the client buffer, or from a file.

use std::collections::VecDeque;

use kv_proto::wire::{Destination, Request, Source};

use crate::call::{Begin, Commit};
use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::handle::Handle;
use crate::options::PutOptions;
use crate::request_id::RequestId;
use crate::results::{self, Stored};
use crate::step::{CHUNKS_IN_FLIGHT, CallArguments, Step, check, describe};
use crate::value::{Metadata, Value};

/// Reads one version of a value chunk by chunk, even if the key is changed meanwhile.
///
/// The store keeps the version until the reader is dropped or idle for too long: then reading fails with [`ErrorKind::Unavailable`], as it
/// does when the connection is lost. Chunks are requested ahead; dropping the reader waits for those in flight, at most a second.
#[derive(Debug)]
pub struct Reader<'c> {
    client: &'c mut Client,
    name: String,
    handle: Option<Handle>,
    metadata: Metadata,
    /// Chunks in flight, in order, with their lengths.
    in_flight: VecDeque<(RequestId, u64)>,
    first: Option<Value>,
    requested: u64,
    end: u64,
    chunk: u64,
}

/// Stores a value chunk by chunk. The value becomes visible as a whole with [`Writer::commit`].
///
/// The store reserves memory for the whole value at the start. Dropping the writer without a commit frees that memory and leaves the key
/// unchanged; it waits for chunks in flight, at most a second. If the connection is lost, writing fails with [`ErrorKind::Unavailable`].
#[derive(Debug)]
pub struct Writer<'c> {
    client: &'c mut Client,
    key: Vec<u8>,
    options: PutOptions,
    /// `None` once it is committed.
    handle: Option<Handle>,
    length: u64,
    written: u64,
    /// Chunks in flight.
    in_flight: VecDeque<RequestId>,
    chunk: usize,
}

impl Client {
    /// Opens a value for reading: up to `length` bytes from `offset` on; `None` if the key does not
    /// exist.
    pub fn open(
        &mut self,
        key: &[u8],
        offset: u64,
        length: Option<u64>,
    ) -> Result<Option<Reader<'_>>, Error> {
        check(key)?;
        let name = describe("get", key);
        let chunk = self.core.chunk() as u64;
        let request = Request::Get {
            key,
            offset,
            length: chunk.min(length.unwrap_or(u64::MAX)),
            destination: Destination::Inline,
            open_handle: true,
            checksum: false,
        };
        let (answer, first, handle) = self.request(&request, || name.clone())?.into_parts();
        let Some(metadata) = results::found(&answer, || name.clone())? else { return Ok(None) };
        let end = offset.saturating_add(length.unwrap_or(u64::MAX)).min(metadata.length);
        let requested = offset.saturating_add(answer.written).min(end.max(offset));
        let in_flight = VecDeque::new();
        Ok(Some(Reader {
            client: self,
            name,
            handle,
            metadata,
            in_flight,
            first,
            requested,
            end,
            chunk,
        }))
    }

    /// Starts to write a value of this length chunk by chunk.
    pub fn create(
        &mut self,
        key: &[u8],
        length: u64,
        options: &PutOptions,
    ) -> Result<Writer<'_>, Error> {
        check(key)?;
        let handle = self.run(&mut Begin { length }, &CallArguments::of(key))?;
        let chunk = self.core.chunk();
        Ok(Writer {
            client: self,
            key: key.to_vec(),
            options: *options,
            handle: Some(handle),
            length,
            written: 0,
            in_flight: VecDeque::new(),
            chunk,
        })
    }
}

impl Reader<'_> {
    /// Length, version and expiry of the value.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The remaining bytes.
    pub fn length(&self) -> u64 {
        let first = self.first.as_ref().map_or(0, Value::len) as u64;
        self.end.saturating_sub(self.requested) + first
    }

    /// The next chunk; `None` at the end.
    pub fn next_chunk(&mut self) -> Result<Option<Value>, Error> {
        self.read_ahead()?;
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Ok(Some(first));
        }
        let Some((request_id, length)) = self.in_flight.pop_front() else { return Ok(None) };
        let received = self.client.await_answer(request_id, || self.name.clone())?;
        let (answer, value, _) = received.into_parts();
        results::found(&answer, || self.name.clone())?;
        let whole = value.filter(|value| value.len() as u64 == length);
        whole.map(Some).ok_or_else(|| {
            Error::new(
                ErrorKind::ProtocolError,
                format!("{}: the store sent less than was requested", self.name),
            )
        })
    }

    fn read_ahead(&mut self) -> Result<(), Error> {
        while self.in_flight.len() < CHUNKS_IN_FLIGHT
            && self.requested < self.end
            && let Some(handle) = &self.handle
        {
            let (id, offset) = (handle.id(), self.requested);
            let length = self.chunk.min(self.end - offset);
            let read = Step::Read { handle: id, offset, length, checksum: false };
            let request_id = self.client.begin_step(read, &CallArguments::of(&[]))?;
            self.in_flight.push_back((request_id, length));
            self.requested += length;
            self.client.flush()?;
        }
        Ok(())
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.handle = None;
        self.client.discard(&mut self.in_flight.drain(..).map(|(request_id, _)| request_id));
    }
}

impl Writer<'_> {
    /// Writes the next bytes. Their total must not exceed the length given to [`Client::create`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() as u64 > self.missing() {
            let text = format!("{}: more bytes than the {} announced", self.name(), self.length);
            return Err(Error::new(ErrorKind::Misuse, text));
        }
        bytes.chunks(self.chunk).try_for_each(|chunk| self.write_chunk(chunk))
    }

    /// How many bytes are still missing.
    pub fn missing(&self) -> u64 {
        self.length - self.written
    }

    fn write_chunk(&mut self, chunk: &[u8]) -> Result<(), Error> {
        while self.in_flight.len() >= CHUNKS_IN_FLIGHT {
            self.finish_one()?;
        }
        // The rest of the client buffer may be in use: wait for a chunk in flight.
        let request_id = loop {
            match self.send(chunk) {
                Err(error)
                    if error.kind() == ErrorKind::ClientLimit && !self.in_flight.is_empty() =>
                {
                    self.finish_one()?;
                }
                sent => break sent?,
            }
        };
        self.in_flight.push_back(request_id);
        self.written += chunk.len() as u64;
        self.client.flush()
    }

    fn send(&mut self, chunk: &[u8]) -> Result<RequestId, Error> {
        let Some(handle) = self.handle.as_ref().map(Handle::id) else {
            return Err(Error::new(
                ErrorKind::Misuse,
                format!("{}: committed already", self.name()),
            ));
        };
        let lease = self.client.core.client_buffer().lease(chunk.len())?;
        lease.client_buffer().memory().write(lease.offset(), chunk);
        let source = Source::Region { region: 0, at: lease.offset() as u64 };
        let (offset, length, mut lease) = (self.written, chunk.len() as u64, Some(lease));
        let mut deadline = self.client.deadline();
        self.client.begin_by(&mut deadline, |core, request_id| {
            let handle = handle.on(core.connection_number());
            core.submit(request_id, &Request::Chunk { handle, offset, length, source }, &mut lease)
        })
    }

    fn finish_one(&mut self) -> Result<(), Error> {
        if let Some(request_id) = self.in_flight.pop_front() {
            let key = &self.key;
            let operation = || describe("put", key);
            let received = self.client.await_answer(request_id, operation)?;
            results::stored(&received.answer, operation)?;
        }
        Ok(())
    }

    fn name(&self) -> String {
        describe("put", &self.key)
    }

    /// Stores the value under the key.
    pub fn commit(mut self) -> Result<Stored, Error> {
        while !self.in_flight.is_empty() {
            self.finish_one()?;
        }
        if self.missing() > 0 {
            let text = format!("{}: {} bytes are missing", self.name(), self.missing());
            return Err(Error::new(ErrorKind::Misuse, text));
        }
        let Some(handle) = self.handle.take() else {
            return Err(Error::new(
                ErrorKind::Misuse,
                format!("{}: committed already", self.name()),
            ));
        };
        let arguments = CallArguments { key: &self.key, value: &[], options: self.options };
        let stored = self.client.run(&mut Commit { handle: handle.id() }, &arguments)?;
        handle.closed_by_store();
        Ok(stored)
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.handle = None;
        self.client.discard(&mut self.in_flight.drain(..));
    }
}
