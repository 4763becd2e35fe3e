//! Values in pieces: those longer than the receive buffer, and those that come from a file.

use std::collections::VecDeque;

use kv_proto::wire::{Place, Request, Source};

use crate::ask::{check, named};
use crate::client::Client;
use crate::error::{Error, Kind};
use crate::options::PutOptions;
use crate::receive_buffer::Lease;
use crate::results::{self, Stored};
use crate::token::Token;
use crate::value::{Facts, Value};

/// One version of a value, read piece by piece. The store keeps it until it is read, dropped, or not asked
/// for in a while.
pub struct Reader<'c> {
    client: &'c mut Client,
    name: String,
    handle: Option<u64>,
    facts: Facts,
    /// Pieces in flight, in order, with their lengths.
    coming: VecDeque<(Token, u64)>,
    first: Option<Value>,
    asked: u64,
    end: u64,
    piece: u64,
}

/// A value that is stored piece by piece, and becomes visible as a whole.
pub struct Writer<'c> {
    client: &'c mut Client,
    key: Vec<u8>,
    options: PutOptions,
    handle: u64,
    length: u64,
    written: u64,
    /// Pieces in flight.
    going: VecDeque<Token>,
    piece: usize,
    is_over: bool,
}

impl Client {
    /// Opens a value for reading: `length` bytes from `offset` on, or what there is of them.
    pub fn open(
        &mut self,
        key: &[u8],
        offset: u64,
        length: Option<u64>,
    ) -> Result<Option<Reader<'_>>, Error> {
        check(key)?;
        let name = named("get", key);
        let piece = self.piece();
        let request = Request::Get {
            key,
            offset,
            length: piece.min(length.unwrap_or(u64::MAX)),
            place: Place::Packed,
            keep: true,
            checksum: false,
        };
        let (answer, first) = self.call(&request, || name.clone())?;
        let Some(facts) = results::found(&answer, || name.clone())? else { return Ok(None) };
        let end = offset.saturating_add(length.unwrap_or(u64::MAX)).min(facts.length);
        let asked = offset.saturating_add(answer.written).min(end.max(offset));
        let handle = (answer.handle != 0).then_some(answer.handle);
        let coming = VecDeque::new();
        Ok(Some(Reader { client: self, name, handle, facts, coming, first, asked, end, piece }))
    }

    /// Begins a value of this length, to be written piece by piece.
    pub fn create(
        &mut self,
        key: &[u8],
        length: u64,
        options: &PutOptions,
    ) -> Result<Writer<'_>, Error> {
        check(key)?;
        let what = || named("put", key);
        let answer = self.patiently(|this| {
            let (answer, _) = this.call(&Request::Begin { length }, what)?;
            results::stored(&answer, what).map(|_| answer)
        })?;
        let (handle, piece) = (answer.handle, self.piece() as usize);
        Ok(Writer {
            client: self,
            key: key.to_vec(),
            options: *options,
            handle,
            length,
            written: 0,
            going: VecDeque::new(),
            piece,
            is_over: false,
        })
    }

    /// So long that each is worth a request, so short that several fit into the receive buffer.
    fn piece(&self) -> u64 {
        ((self.core.receive_buffer().len() / 16) as u64).clamp(64 << 10, 4 << 20)
    }
}

impl Reader<'_> {
    /// What is known of the value.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// How many bytes will be read in all.
    pub fn length(&self) -> u64 {
        let first = self.first.as_ref().map_or(0, Value::len) as u64;
        self.end.saturating_sub(self.asked) + first
    }

    /// The next piece; none: that was all.
    pub fn next_piece(&mut self) -> Result<Option<Value>, Error> {
        self.ask_ahead()?;
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Ok(Some(first));
        }
        let Some((token, length)) = self.coming.pop_front() else { return Ok(None) };
        let (answer, value) = self.client.await_answer(token, || self.name.clone())?;
        results::found(&answer, || self.name.clone())?;
        let whole = value.filter(|value| value.len() as u64 == length);
        whole.map(Some).ok_or_else(|| {
            Error::new(
                Kind::ProtocolError,
                format!("{}: the store sent less than it has", self.name),
            )
        })
    }

    fn ask_ahead(&mut self) -> Result<(), Error> {
        while self.coming.len() < AHEAD
            && self.asked < self.end
            && let Some(handle) = self.handle
        {
            let length = self.piece.min(self.end - self.asked);
            let (offset, place) = (self.asked, Place::Packed);
            let request = Request::Read { handle, offset, length, place, checksum: false };
            let token = self.client.begin(&request, None)?;
            self.client.flush()?;
            self.coming.push_back((token, length));
            self.asked += length;
        }
        Ok(())
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.client.forsake(handle);
        }
        for (token, _) in self.coming.drain(..) {
            self.client.ignore(token);
        }
    }
}

impl Writer<'_> {
    /// The next bytes. Not more than were announced.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(self.piece));
            let lease = self.room(part.len())?;
            lease.receive_buffer().memory().write(lease.offset(), part);
            self.send(lease, part.len())?;
            bytes = rest;
        }
        Ok(())
    }

    /// How many bytes are still missing.
    pub fn missing(&self) -> u64 {
        self.length - self.written
    }

    fn room(&mut self, length: usize) -> Result<Lease, Error> {
        if length as u64 > self.missing() {
            let text = format!("{}: more bytes than the {} announced", self.name(), self.length);
            return Err(Error::new(Kind::Misuse, text));
        }
        while self.going.len() >= AHEAD {
            self.finish_one()?;
        }
        loop {
            match self.client.core.receive_buffer().lease(length) {
                Err(error) if error.kind() == Kind::Busy && !self.going.is_empty() => {
                    self.finish_one()?;
                }
                leased => return leased,
            }
        }
    }

    fn send(&mut self, lease: Lease, length: usize) -> Result<(), Error> {
        let source = Source::Apart { region: 0, at: lease.offset() as u64 };
        let (handle, offset, length) = (self.handle, self.written, length as u64);
        let request = Request::Piece { handle, offset, length, source };
        self.going.push_back(self.client.begin(&request, Some(lease))?);
        self.client.flush()?;
        self.written += length;
        Ok(())
    }

    fn finish_one(&mut self) -> Result<(), Error> {
        if let Some(token) = self.going.pop_front() {
            let key = &self.key;
            let what = || named("put", key);
            let (answer, _) = self.client.await_answer(token, what)?;
            results::stored(&answer, what)?;
        }
        Ok(())
    }

    fn name(&self) -> String {
        named("put", &self.key)
    }

    /// Makes it the key's value.
    pub fn commit(mut self) -> Result<Stored, Error> {
        while !self.going.is_empty() {
            self.finish_one()?;
        }
        if self.missing() > 0 {
            let text = format!("{}: {} bytes are missing", self.name(), self.missing());
            return Err(Error::new(Kind::Misuse, text));
        }
        let sequence = self.client.core.next_sequence();
        let (ttl, condition) = (self.options.ttl_ms(), self.options.condition);
        let request =
            Request::Commit { handle: self.handle, key: &self.key, ttl, condition, sequence };
        let name = self.name();
        let (answer, _) = self.client.call(&request, || name.clone())?;
        self.is_over = true;
        results::stored(&answer, || self.name())
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.client.forsake(self.handle);
        }
        for token in self.going.drain(..) {
            self.client.ignore(token);
        }
    }
}

/// How many pieces are in flight at once.
const AHEAD: usize = 4;
