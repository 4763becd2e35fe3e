//! The caller's own registered memory: values are read into it and stored from it without a copy.

use std::ops::Range;
use std::sync::Arc;

use fabric::{Memory, Region};
use kv_proto::wire::{Answer, Destination, Request, Source};

use crate::call::{Begin, Commit, PutFrom};
use crate::client::Client;
use crate::drop_queue::DropQueue;
use crate::error::{Error, ErrorKind};
use crate::handle::HandleId;
use crate::options::PutOptions;
use crate::outcome::ReceivedAnswer;
use crate::pending::Dropped;
use crate::results::{self, Stored};
use crate::step::{CallArguments, check, describe};
use crate::value::{Metadata, checksum};

/// The caller's memory, granted to the store under a number. The store may write to it only while a call that names it is in
/// flight, or has timed out and is not yet answered.
///
/// Dropping it revokes the grant with the client's next call; [`Client::unregister`] revokes it at once.
#[derive(Debug)]
pub struct RegisteredBuffer {
    number: u32,
    region: Region,
    /// `None` once it is revoked.
    client: Option<Arc<DropQueue<Dropped>>>,
}

impl RegisteredBuffer {
    /// The memory.
    pub fn memory(&self) -> &Memory {
        self.region.memory()
    }

    fn check(
        &self,
        client: &Client,
        range: &Range<usize>,
        operation: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        if !self.belongs_to(client) {
            return Err(another_clients(operation));
        }
        if range.start <= range.end && range.end <= self.region.len() {
            return Ok(());
        }
        let text = format!("{}: {range:?} is not within {} bytes", operation(), self.region.len());
        Err(Error::new(ErrorKind::Misuse, text))
    }

    /// Clients number their buffers independently of each other.
    fn belongs_to(&self, client: &Client) -> bool {
        self.client.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, &client.dropped))
    }
}

impl Drop for RegisteredBuffer {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            client.push(Dropped::Buffer(self.number));
        }
    }
}

impl Client {
    /// Registers the caller's memory with the store, until [`Client::unregister`]. A slow call: do it once.
    pub fn register(&mut self, memory: &Memory) -> Result<RegisteredBuffer, Error> {
        self.release_dropped();
        let (number, region) = self.core.register(memory)?;
        Ok(RegisteredBuffer { number, region, client: Some(self.dropped.clone()) })
    }

    /// Revokes the store's access to the memory, without waiting: do not call it while a call that names the memory has
    /// timed out and may still be executed.
    pub fn unregister(&mut self, mut buffer: RegisteredBuffer) -> Result<(), Error> {
        if !buffer.belongs_to(self) {
            return Err(another_clients(|| "unregister memory".to_owned()));
        }
        buffer.client = None;
        self.core.unregister(buffer.number)
    }

    /// Reads a value directly into the caller's memory, as much of it as fits. The result has the whole
    /// length.
    pub fn get_into(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: Range<usize>,
    ) -> Result<Option<Metadata>, Error> {
        self.get_into_range(key, buffer, &range, false)
    }

    /// As [`Client::get_into`], and compares a checksum, as [`Client::get_checked`].
    pub fn get_into_checked(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: Range<usize>,
    ) -> Result<Option<Metadata>, Error> {
        self.get_into_range(key, buffer, &range, true)
    }

    fn get_into_range(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: &Range<usize>,
        checked: bool,
    ) -> Result<Option<Metadata>, Error> {
        check(key)?;
        buffer.check(self, range, || describe("get", key))?;
        self.retrying(true, |this, _| this.get_into_once(key, buffer, range, checked))
    }

    fn get_into_once(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: &Range<usize>,
        checked: bool,
    ) -> Result<Option<Metadata>, Error> {
        let operation = || describe("get", key);
        let target = Target { buffer, at: range.start, checked };
        let (capacity, max_bytes) = (range.len() as u64, self.max_request_bytes());
        let request = Request::Get {
            key,
            offset: 0,
            length: capacity.min(max_bytes),
            destination: target.destination(0),
            open_handle: true,
            checksum: checked,
        };
        let ReceivedAnswer { answer, handle, .. } = self.request(&request, operation)?;
        let Some(metadata) = results::found(&answer, operation)? else { return Ok(None) };
        target.verify(&answer, 0, operation)?;
        let (mut done, wanted) = (answer.written, capacity.min(metadata.length));
        // Longer than one request reads, or fragmented in the pool: read the rest of the same version.
        while done < wanted
            && let Some(handle) = &handle
        {
            let (id, length, destination) =
                (handle.id(), (wanted - done).min(max_bytes), target.destination(done));
            let request_id = self.begin_by(&mut self.deadline(), |core, request_id| {
                let handle = id.on(core.connection_number());
                let offset = done;
                let request =
                    Request::Read { handle, offset, length, destination, checksum: checked };
                core.submit(request_id, &request, &mut None)
            })?;
            let more = self.await_answer(request_id, operation)?.answer;
            results::found(&more, operation)?;
            target.verify(&more, done, operation)?;
            if more.written == 0 {
                return Err(short(operation));
            }
            done += more.written;
        }
        if done < wanted { Err(short(operation)) } else { Ok(Some(metadata)) }
    }

    /// Stores a value directly from the caller's memory, which must not change until this returns.
    pub fn put_from(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: Range<usize>,
        options: &PutOptions,
    ) -> Result<Stored, Error> {
        check(key)?;
        let operation = || describe("put", key);
        buffer.check(self, &range, operation)?;
        let arguments = CallArguments { key, value: &[], options: *options };
        let length = range.len() as u64;
        let source =
            |from: u64| Source::Region { region: buffer.number, at: range.start as u64 + from };
        let max_bytes = self.max_request_bytes();
        if length <= max_bytes {
            let (region, at) = (buffer.number, range.start as u64);
            return self.run(&mut PutFrom { region, at, length }, &arguments);
        }
        let handle = self.run(&mut Begin { length }, &arguments)?;
        if let Err(error) = self.write_from(key, handle.id(), length, source) {
            drop(handle);
            self.close_dropped();
            return Err(error);
        }
        let stored = self.run(&mut Commit { handle: handle.id() }, &arguments)?;
        handle.closed_by_store();
        Ok(stored)
    }

    /// Writes all of a staged value, chunk by chunk.
    fn write_from(
        &mut self,
        key: &[u8],
        id: HandleId,
        length: u64,
        source: impl Fn(u64) -> Source<'static>,
    ) -> Result<(), Error> {
        let (operation, max_bytes) = (|| describe("put", key), self.max_request_bytes());
        let mut offset = 0;
        while offset < length {
            let chunk = (length - offset).min(max_bytes);
            let request_id = self.begin_by(&mut self.deadline(), |core, request_id| {
                let (handle, source) = (id.on(core.connection_number()), source(offset));
                let request = Request::Chunk { handle, offset, length: chunk, source };
                core.submit(request_id, &request, &mut None)
            })?;
            results::stored(&self.await_answer(request_id, operation)?.answer, operation)?;
            offset += chunk;
        }
        Ok(())
    }

    /// The maximum bytes that one request reads or writes.
    fn max_request_bytes(&self) -> u64 {
        self.core.limits().map_or(1 << 20, |limits| limits.transfer)
    }
}

/// The destination of a value in a buffer.
struct Target<'s> {
    buffer: &'s RegisteredBuffer,
    at: usize,
    checked: bool,
}

impl Target<'_> {
    fn destination(&self, done: u64) -> Destination {
        Destination::Region { region: self.buffer.number, at: self.at as u64 + done }
    }

    /// Checks that the bytes are within the buffer and match the checksum.
    fn verify(
        &self,
        answer: &Answer,
        done: u64,
        operation: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        let (offset, length) = (self.at + done as usize, answer.written as usize);
        if offset.checked_add(length).is_none_or(|end| end > self.buffer.region.len()) {
            let text =
                format!("{}: the store reports more bytes than fit into the memory", operation());
            return Err(Error::new(ErrorKind::ProtocolError, text));
        }
        let found = || checksum(self.buffer.memory(), offset, length);
        match self.checked && answer.checksum != Some(found()) {
            true => Err(results::damaged(operation)),
            false => Ok(()),
        }
    }
}

fn another_clients(operation: impl FnOnce() -> String) -> Error {
    Error::new(
        ErrorKind::Misuse,
        format!("{}: the memory was registered by another client", operation()),
    )
}

fn short(operation: impl FnOnce() -> String) -> Error {
    Error::new(
        ErrorKind::ProtocolError,
        format!("{}: the store sent less than was requested", operation()),
    )
}
