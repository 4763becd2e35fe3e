//! A worker's memory for answers to be sent: buffers of a few sizes, registered once.

use fabric::link::Endpoint;
use fabric::{Error, Memory, Pages, Region, Rights, Slice};

/// Buffers of all sizes. More are added on demand: each connection has its own limit, so that none
/// starves another.
pub(crate) struct SendBuffers {
    endpoint: Endpoint,
    regions: Vec<Region>,
    free: [Vec<SendBuffer>; SIZES.len()],
}

/// One buffer, to be released.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    size: u8,
    region: u16,
    offset: u32,
}

impl SendBuffers {
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, Error> {
        let endpoint = endpoint.clone();
        let mut send_buffers =
            SendBuffers { endpoint, regions: Vec::new(), free: Default::default() };
        (0..SIZES.len()).try_for_each(|size| send_buffers.grow(size))?;
        Ok(send_buffers)
    }

    /// Adds buffers of one size.
    #[cold]
    fn grow(&mut self, size: usize) -> Result<(), Error> {
        let (length, count) = SIZES[size];
        let step = length + FLAG_LINE_BYTES;
        let memory = Memory::allocate(step * count, Pages::Plain)?;
        let region = u16::try_from(self.regions.len()).map_err(|_| {
            let fix = "have fewer answers in flight";
            Error::new(
                fabric::ErrorKind::Full,
                "allocate memory for answers",
                "too many regions",
                fix,
            )
        })?;
        self.regions.push(self.endpoint.register(&memory, Rights::NONE)?);
        let buffer = |at| SendBuffer { size: size as u8, region, offset: (at * step) as u32 };
        self.free[size].extend((0..count).rev().map(buffer));
        Ok(())
    }

    /// Copies bytes into a buffer; `None`: too long, or out of memory.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Option<SendBuffer> {
        let size = SIZES.iter().position(|(size, _)| bytes.len() <= *size)?;
        if self.free[size].is_empty() {
            self.grow(size).ok()?;
        }
        let buffer = self.free[size].pop()?;
        self.regions[usize::from(buffer.region)].memory().write(buffer.offset as usize, bytes);
        Some(buffer)
    }

    /// A word after a buffer, set to this value, to be written as completion flag.
    #[inline]
    pub(crate) fn completion_flag(&self, buffer: &SendBuffer, word: u64) -> Slice {
        let region = &self.regions[usize::from(buffer.region)];
        let offset = buffer.offset as usize + SIZES[usize::from(buffer.size)].0;
        region.memory().store(offset, word);
        region.slice(offset..offset + FLAG_BYTES)
    }

    /// A part of the buffer's bytes.
    #[inline]
    pub(crate) fn slice(&self, buffer: &SendBuffer, from: usize, to: usize) -> Slice {
        let offset = buffer.offset as usize;
        self.regions[usize::from(buffer.region)].slice(offset + from..offset + to)
    }

    #[inline]
    pub(crate) fn release(&mut self, buffer: SendBuffer) {
        self.free[usize::from(buffer.size)].push(buffer);
    }
}

impl SendBuffer {
    /// Whether it is of the largest size, of which a connection may use few.
    pub(crate) fn is_large(&self) -> bool {
        usize::from(self.size) == SIZES.len() - 1
    }
}

/// The size of the largest buffers.
pub(crate) const MAX_SEND_BUFFER_BYTES: usize = SIZES[SIZES.len() - 1].0;

/// The word after a buffer, and its own cache line.
const FLAG_BYTES: usize = 8;
const FLAG_LINE_BYTES: usize = 64;
/// Sizes in bytes, and the number of buffers per allocation.
const SIZES: [(usize, usize); 3] = [(2 << 10, 256), (16 << 10, 32), (256 << 10, 4)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_and_added() {
        let endpoint = Endpoint::new(Default::default()).unwrap();
        let mut send_buffers = SendBuffers::new(&endpoint).unwrap();
        let all: Vec<SendBuffer> =
            (0..600).map(|_| send_buffers.write(b"answer").unwrap()).collect();
        assert!(all.iter().all(|buffer| send_buffers.slice(buffer, 0, 6).to_vec() == b"answer"));
        all.into_iter().for_each(|buffer| send_buffers.release(buffer));
        assert_eq!(send_buffers.free[0].len(), 768);
        let large = send_buffers.write(&vec![1; MAX_SEND_BUFFER_BYTES]).unwrap();
        assert!(large.is_large());
        assert!(send_buffers.write(&vec![1; MAX_SEND_BUFFER_BYTES + 1]).is_none());
    }
}
