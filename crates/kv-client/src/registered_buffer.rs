//! Memory of the caller's own that values are fetched into and stored from, with no copy in between.

use std::ops::Range;
use std::sync::Arc;

use fabric::{Memory, Region};
use kv_proto::wire::{Answer, Place, Request, Source};

use crate::call::{Begin, Commit, PutFrom};
use crate::client::Client;
use crate::drop_queue::DropQueue;
use crate::error::{Error, Kind};
use crate::handle::HandleId;
use crate::in_flight::Reply;
use crate::options::PutOptions;
use crate::pending::Dropped;
use crate::results::{self, Stored};
use crate::step::{Subject, check, named};
use crate::value::{Facts, checksum};

/// Memory that the store knows by a number. The store may write to it only while a call that names it is in
/// flight, or was given up at its deadline and not yet answered.
///
/// Dropping it withdraws the memory from the store with the client's next call, as [`Client::unregister`] does at once.
#[derive(Debug)]
pub struct RegisteredBuffer {
    number: u32,
    region: Region,
    /// `None` once it is withdrawn.
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
        what: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        if !self.is_of(client) {
            return Err(another_clients(what));
        }
        if range.start <= range.end && range.end <= self.region.len() {
            return Ok(());
        }
        let text = format!("{}: {range:?} is not within {} bytes", what(), self.region.len());
        Err(Error::new(Kind::Misuse, text))
    }

    /// Clients number their buffers independently of each other.
    fn is_of(&self, client: &Client) -> bool {
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
    /// Registers memory of the caller's with the store, until [`Client::unregister`]. A slow call: do it once.
    pub fn register(&mut self, memory: &Memory) -> Result<RegisteredBuffer, Error> {
        self.release_dropped();
        let (number, region) = self.core.register(memory)?;
        Ok(RegisteredBuffer { number, region, client: Some(self.dropped.clone()) })
    }

    /// Withdraws memory from the store. It waits for nothing: do not call it while a call that names the memory was given
    /// up at its deadline.
    pub fn unregister(&mut self, mut buffer: RegisteredBuffer) -> Result<(), Error> {
        if !buffer.is_of(self) {
            return Err(another_clients(|| "unregister memory".to_owned()));
        }
        buffer.client = None;
        self.core.unregister(buffer.number)
    }

    /// Fetches a value straight into the caller's memory: as much of it as fits there. The whole length is in
    /// the answer.
    pub fn get_into(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: Range<usize>,
    ) -> Result<Option<Facts>, Error> {
        self.fetch_into(key, buffer, &range, false)
    }

    /// As [`Client::get_into`], compared with the store's checksum as by [`Client::get_checked`].
    pub fn get_into_checked(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: Range<usize>,
    ) -> Result<Option<Facts>, Error> {
        self.fetch_into(key, buffer, &range, true)
    }

    fn fetch_into(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: &Range<usize>,
        checked: bool,
    ) -> Result<Option<Facts>, Error> {
        check(key)?;
        buffer.check(self, range, || named("get", key))?;
        self.retrying(true, |this, _| this.fetch_into_once(key, buffer, range, checked))
    }

    fn fetch_into_once(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: &Range<usize>,
        checked: bool,
    ) -> Result<Option<Facts>, Error> {
        let what = || named("get", key);
        let part = Part { buffer, at: range.start, checked };
        let (room, moved) = (range.len() as u64, self.moved());
        let request = Request::Get {
            key,
            offset: 0,
            length: room.min(moved),
            place: part.place(0),
            keep: true,
            checksum: checked,
        };
        let Reply { answer, handle, .. } = self.call(&request, what)?;
        let Some(facts) = results::found(&answer, what)? else { return Ok(None) };
        part.sound(&answer, 0, what)?;
        let (mut done, wanted) = (answer.written, room.min(facts.length));
        // More than one request moves, or scattered in the pool: the rest of the same version.
        while done < wanted
            && let Some(handle) = &handle
        {
            let (id, length, place) = (handle.id(), (wanted - done).min(moved), part.place(done));
            let token = self.begin_by(&mut self.deadline(), |core, token| {
                let handle = id.on(core.connection());
                let offset = done;
                let request = Request::Read { handle, offset, length, place, checksum: checked };
                core.ask(token, &request, &mut None)
            })?;
            let more = self.await_reply(token, what)?.answer;
            results::found(&more, what)?;
            part.sound(&more, done, what)?;
            if more.written == 0 {
                return Err(short(what));
            }
            done += more.written;
        }
        if done < wanted { Err(short(what)) } else { Ok(Some(facts)) }
    }

    /// Stores a value straight from the caller's memory, which must not change until this returns.
    pub fn put_from(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: Range<usize>,
        options: &PutOptions,
    ) -> Result<Stored, Error> {
        check(key)?;
        let what = || named("put", key);
        buffer.check(self, &range, what)?;
        let subject = Subject { key, value: &[], options: *options };
        let length = range.len() as u64;
        let source =
            |from: u64| Source::Region { region: buffer.number, at: range.start as u64 + from };
        let moved = self.moved();
        if length <= moved {
            let (region, at) = (buffer.number, range.start as u64);
            return self.run(&mut PutFrom { region, at, length }, &subject);
        }
        let handle = self.run(&mut Begin { length }, &subject)?;
        if let Err(error) = self.write_from(key, handle.id(), length, source) {
            drop(handle);
            self.close_dropped();
            return Err(error);
        }
        let stored = self.run(&mut Commit { handle: handle.id() }, &subject)?;
        handle.closed_by_store();
        Ok(stored)
    }

    /// Writes all of a staged value, piece by piece.
    fn write_from(
        &mut self,
        key: &[u8],
        id: HandleId,
        length: u64,
        source: impl Fn(u64) -> Source<'static>,
    ) -> Result<(), Error> {
        let (what, moved) = (|| named("put", key), self.moved());
        let mut offset = 0;
        while offset < length {
            let piece = (length - offset).min(moved);
            let token = self.begin_by(&mut self.deadline(), |core, token| {
                let (handle, source) = (id.on(core.connection()), source(offset));
                let request = Request::Piece { handle, offset, length: piece, source };
                core.ask(token, &request, &mut None)
            })?;
            results::stored(&self.await_reply(token, what)?.answer, what)?;
            offset += piece;
        }
        Ok(())
    }

    /// The most that one request moves.
    fn moved(&self) -> u64 {
        self.core.limits().map_or(1 << 20, |limits| limits.moved)
    }
}

/// A place on a buffer that a value is fetched into.
struct Part<'s> {
    buffer: &'s RegisteredBuffer,
    at: usize,
    checked: bool,
}

impl Part<'_> {
    fn place(&self, done: u64) -> Place {
        Place::Region { region: self.buffer.number, at: self.at as u64 + done }
    }

    /// Whether what came is what was sent.
    fn sound(
        &self,
        answer: &Answer,
        done: u64,
        what: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        let (offset, length) = (self.at + done as usize, answer.written as usize);
        if offset.checked_add(length).is_none_or(|end| end > self.buffer.region.len()) {
            let text =
                format!("{}: the store claims to have written more than there is room for", what());
            return Err(Error::new(Kind::ProtocolError, text));
        }
        let found = || checksum(self.buffer.memory(), offset, length);
        match self.checked && answer.checksum != Some(found()) {
            true => Err(results::damaged(what)),
            false => Ok(()),
        }
    }
}

fn another_clients(what: impl FnOnce() -> String) -> Error {
    Error::new(Kind::Misuse, format!("{}: the memory is registered by another client", what()))
}

fn short(what: impl FnOnce() -> String) -> Error {
    Error::new(Kind::ProtocolError, format!("{}: the store sent less than it has", what()))
}
