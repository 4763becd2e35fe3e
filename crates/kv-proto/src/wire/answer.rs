//! One answer: 48 bytes, in the order of the requests; the requested bytes follow after all answers.

use super::{ProtocolError, Reader};

/// The store's answer to one request. Which fields are used depends on the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The result.
    pub status: Status,
    /// A value was replaced.
    pub replaced: bool,
    /// CRC32C of the bytes written, if requested.
    pub checksum: Option<u32>,
    /// How many bytes the store wrote, after the answers or to the requested region. For a value that is read in place: its
    /// readable bytes.
    pub written: u64,
    /// The whole value's length. [`Status::Full`]: the free bytes. [`Status::TooLong`]: the limit.
    pub length: u64,
    /// The value's version; if a condition is not met, the current version.
    pub version: u64,
    /// Milliseconds until it expires, if it does.
    pub expires_in: Option<u64>,
    /// A read handle or a staged value, if not 0; for a listing, the next cursor. For a value that is read in place, its offset in the
    /// store's pool.
    pub handle: u64,
    /// The value was not written: it stays pinned until its batch is [consumed](super::SlotBlock::CONSUMED).
    pub in_place: bool,
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// The key does not exist.
    NotFound = 1,
    /// The key exists, but the condition is that it does not.
    Exists = 2,
    /// The key does not exist, but the condition names a version.
    Absent = 3,
    /// The key exists in another version.
    OtherVersion = 4,
    /// No space for the value.
    Full = 5,
    /// The value is longer than the store's limit.
    TooLong = 6,
    /// Unknown region, or out of its bounds.
    NoRegion = 7,
    /// Unknown read handle or staged value, or it was idle for too long.
    NoHandle = 8,
    /// Too many read handles or staged values.
    TooManyHandles = 9,
    /// The write's sequence is so old that its answer is no longer kept.
    Forgotten = 10,
    /// A write with this sequence is in flight.
    InFlight = 11,
    /// The client's memory could not be read.
    Unreadable = 12,
    /// Not allowed.
    Denied = 13,
    /// A staged value has gaps.
    Incomplete = 14,
    /// The caller's rate limit is exceeded.
    RateLimited = 15,
    /// The store's disk is full; nothing was written.
    DiskFull = 16,
    /// The store's disk failed; nothing was written or read.
    DiskFailed = 17,
    /// The key's data on disk is damaged.
    Damaged = 18,
    /// The store's limit of bytes in flight is reached; nothing was done. Retry.
    Busy = 19,
    /// The store is shutting down; nothing of the batch was done. Use another store, or retry later.
    Closing = 20,
}

impl Status {
    const ALL: [Status; 21] = [
        Status::Ok,
        Status::NotFound,
        Status::Exists,
        Status::Absent,
        Status::OtherVersion,
        Status::Full,
        Status::TooLong,
        Status::NoRegion,
        Status::NoHandle,
        Status::TooManyHandles,
        Status::Forgotten,
        Status::InFlight,
        Status::Unreadable,
        Status::Denied,
        Status::Incomplete,
        Status::RateLimited,
        Status::DiskFull,
        Status::DiskFailed,
        Status::Damaged,
        Status::Busy,
        Status::Closing,
    ];
}

impl Answer {
    /// The encoded length.
    pub const LENGTH: usize = 48;

    /// An answer with a status and nothing else.
    pub const fn new(status: Status) -> Self {
        Answer {
            status,
            replaced: false,
            checksum: None,
            written: 0,
            length: 0,
            version: 0,
            expires_in: None,
            handle: 0,
            in_place: false,
        }
    }

    /// As bytes.
    #[inline]
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let flags = u8::from(self.replaced)
            | u8::from(self.checksum.is_some()) << 1
            | u8::from(self.expires_in.is_some()) << 2
            | u8::from(self.in_place) << 3;
        let mut bytes = [0; Self::LENGTH];
        bytes[0] = self.status as u8;
        bytes[1] = flags;
        bytes[4..8].copy_from_slice(&self.checksum.unwrap_or(0).to_le_bytes());
        let numbers =
            [self.written, self.length, self.version, self.expires_in.unwrap_or(0), self.handle];
        for (at, number) in numbers.into_iter().enumerate() {
            bytes[8 + at * 8..16 + at * 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// From the store's bytes.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader { bytes };
        let [status, flags, zero, also_zero] = reader.array()?;
        let status = *Status::ALL.get(usize::from(status)).ok_or("unknown status")?;
        let checksum = reader.u32()?;
        let (written, length, version) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (expires_in, handle) = (reader.u64()?, reader.u64()?);
        reader.end()?;
        if flags > 15 || zero != 0 || also_zero != 0 {
            return Err("answer with unknown flags");
        }
        Ok(Answer {
            status,
            replaced: flags & 1 != 0,
            checksum: (flags & 2 != 0).then_some(checksum),
            written,
            length,
            version,
            expires_in: (flags & 4 != 0).then_some(expires_in),
            handle,
            in_place: flags & 8 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_round_trip() {
        for (at, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, at);
            for flags in 0..16 {
                let answer = Answer {
                    status,
                    replaced: flags & 1 != 0,
                    checksum: (flags & 2 != 0).then_some(7),
                    written: 1,
                    length: u64::MAX,
                    version: 2,
                    expires_in: (flags & 4 != 0).then_some(0),
                    handle: 3,
                    in_place: flags & 8 != 0,
                };
                assert_eq!(Answer::parse(&answer.to_bytes()), Ok(answer));
            }
        }
    }

    #[test]
    fn invalid_bytes_are_refused() {
        let good = Answer::new(Status::Ok).to_bytes();
        for (at, value) in [(0, 21), (1, 16), (2, 1), (3, 1)] {
            let mut bad = good;
            bad[at] = value;
            Answer::parse(&bad).expect_err("unknown field");
        }
        Answer::parse(&good[1..]).expect_err("truncated");
    }
}
