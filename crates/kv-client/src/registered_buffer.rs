//! Memory of the caller's own that values are fetched into and stored from, with no copy in between.

use std::ops::Range;

use fabric::{Memory, Region};
use kv_proto::wire::{Answer, Place, Request, Source};

use crate::ask::{check, named};
use crate::client::Client;
use crate::error::{Error, Kind};
use crate::options::PutOptions;
use crate::results::{self, Stored};
use crate::value::{Facts, checksum};

/// Memory that the store knows by a number. The store may write to it only while a call that names it is in
/// flight, or was given up at its deadline and not yet answered.
#[derive(Debug)]
pub struct RegisteredBuffer {
    number: u32,
    region: Region,
}

impl RegisteredBuffer {
    /// The memory.
    pub fn memory(&self) -> &Memory {
        self.region.memory()
    }

    fn check(&self, range: &Range<usize>, what: impl FnOnce() -> String) -> Result<(), Error> {
        if range.start <= range.end && range.end <= self.region.len() {
            return Ok(());
        }
        let text = format!("{}: {range:?} is not within {} bytes", what(), self.region.len());
        Err(Error::new(Kind::Misuse, text))
    }
}

impl Client {
    /// Registers memory of the caller's, until it is forgotten. A slow call: do it once.
    pub fn register(&mut self, memory: &Memory) -> Result<RegisteredBuffer, Error> {
        let (number, region) = self.core.register(memory)?;
        Ok(RegisteredBuffer { number, region })
    }

    /// Takes memory back.
    pub fn forget(&mut self, buffer: RegisteredBuffer) -> Result<(), Error> {
        self.core.forget(buffer.number)
    }

    /// Fetches a value straight into the caller's memory: as much of it as fits there. The whole length is in
    /// the answer.
    pub fn get_into(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: Range<usize>,
    ) -> Result<Option<Facts>, Error> {
        self.fetch_into(key, buffer, range, false)
    }

    /// As [`Client::get_into`], compared with the store's checksum as by [`Client::get_checked`].
    pub fn get_into_checked(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: Range<usize>,
    ) -> Result<Option<Facts>, Error> {
        self.fetch_into(key, buffer, range, true)
    }

    fn fetch_into(
        &mut self,
        key: &[u8],
        buffer: &RegisteredBuffer,
        range: Range<usize>,
        checked: bool,
    ) -> Result<Option<Facts>, Error> {
        check(key)?;
        let what = || named("get", key);
        buffer.check(&range, what)?;
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
        let (answer, _) = self.call(&request, what)?;
        let Some(facts) = results::found(&answer, what)? else { return Ok(None) };
        part.sound(&answer, 0, what)?;
        let (mut done, wanted) = (answer.written, room.min(facts.length));
        let mut outcome = Ok(());
        // More than one request moves, or scattered in the pool: the rest of the same version.
        while done < wanted && answer.handle != 0 && outcome.is_ok() {
            let length = (wanted - done).min(moved);
            let (handle, place) = (answer.handle, part.place(done));
            let request = Request::Read { handle, offset: done, length, place, checksum: checked };
            outcome = self.call(&request, what).and_then(|(more, _)| {
                results::found(&more, what)?;
                part.sound(&more, done, what)?;
                done += more.written;
                if more.written == 0 { Err(short(what)) } else { Ok(()) }
            });
        }
        if answer.handle != 0 {
            self.forsake(answer.handle);
        }
        outcome?;
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
        buffer.check(&range, what)?;
        let (ttl, condition) = (options.ttl_ms(), options.condition);
        let length = range.len() as u64;
        let source =
            |from: u64| Source::Apart { region: buffer.number, at: range.start as u64 + from };
        let moved = self.moved();
        if length <= moved {
            return self.patiently(|this| {
                let sequence = this.core.next_sequence();
                let source = if length == 0 { Source::Along(&[]) } else { source(0) };
                let request = Request::Put { key, length, source, ttl, condition, sequence };
                let (answer, _) = this.call(&request, what)?;
                results::stored(&answer, what)
            });
        }
        let begun = self.patiently(|this| {
            let (begun, _) = this.call(&Request::Begin { length }, what)?;
            results::stored(&begun, what).map(|_| begun)
        })?;
        let handle = begun.handle;
        let mut offset = 0;
        while offset < length {
            let piece = (length - offset).min(moved);
            let request = Request::Piece { handle, offset, length: piece, source: source(offset) };
            let sent = self.call(&request, what);
            if let Err(error) = sent.and_then(|(answer, _)| results::stored(&answer, what)) {
                self.forsake(handle);
                return Err(error);
            }
            offset += piece;
        }
        let sequence = self.core.next_sequence();
        let (answer, _) =
            self.call(&Request::Commit { handle, key, ttl, condition, sequence }, what)?;
        results::stored(&answer, what)
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
        Place::Apart { region: self.buffer.number, at: self.at as u64 + done }
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

fn short(what: impl FnOnce() -> String) -> Error {
    Error::new(Kind::ProtocolError, format!("{}: the store sent less than it has", what()))
}
