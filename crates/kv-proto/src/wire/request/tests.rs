//! Requests are encoded and parsed the same, and nothing else is accepted.

use super::*;
use crate::wire::{ProtocolError, Reader};

pub(crate) fn examples() -> Vec<Request<'static>> {
    let in_region = Destination::Region { region: 3, at: 77 };
    let from_region = Source::Region { region: 2, at: 5 };
    vec![
        Request::Get {
            key: b"k",
            offset: 1,
            length: 2,
            destination: Destination::Inline,
            open_handle: true,
            checksum: false,
        },
        Request::Get {
            key: &[9; 4096],
            offset: 0,
            length: u64::MAX,
            destination: in_region,
            open_handle: false,
            checksum: true,
        },
        Request::Read { handle: 4, offset: 8, length: 9, destination: in_region, checksum: true },
        Request::Close { handle: 6 },
        Request::Put {
            key: b"key",
            length: 5,
            source: Source::Inline(b"value"),
            ttl: Some(0),
            condition: Condition::IfAbsent,
            sequence: 12,
        },
        Request::Put {
            key: b"key",
            length: 1 << 40,
            source: from_region,
            ttl: None,
            condition: Condition::IfVersion(0),
            sequence: 13,
        },
        Request::Begin { length: 3 },
        Request::Chunk { handle: 4, offset: 6, length: 2, source: Source::Inline(b"ab") },
        Request::Chunk { handle: 4, offset: 6, length: 2, source: from_region },
        Request::Commit {
            handle: 9,
            key: b"z",
            ttl: Some(5),
            condition: Condition::Always,
            sequence: 14,
        },
        Request::Delete { key: b"z", condition: Condition::IfVersion(8), sequence: 15 },
        Request::Stat { key: b"stat" },
        Request::List { prefix: b"", cursor: 0, length: 4096 },
    ]
}

fn parse(bytes: &[u8]) -> Result<Request<'_>, ProtocolError> {
    let mut reader = Reader { bytes };
    let request = Request::parse(&mut reader)?;
    reader.end()?;
    Ok(request)
}

#[test]
fn requests_round_trip() {
    for request in examples() {
        let mut bytes = Vec::new();
        request.put(&mut bytes);
        assert_eq!(bytes.len(), request.encoded_len());
        assert_eq!(parse(&bytes), Ok(request));
    }
}

#[test]
fn detaching_handles_changes_nothing_else() {
    let detached = |request| match request {
        Request::Read { offset, length, destination, checksum, .. } => {
            Request::Read { handle: u64::MAX, offset, length, destination, checksum }
        }
        Request::Close { .. } => Request::Close { handle: u64::MAX },
        Request::Chunk { offset, length, source, .. } => {
            Request::Chunk { handle: u64::MAX, offset, length, source }
        }
        Request::Commit { key, ttl, condition, sequence, .. } => {
            Request::Commit { handle: u64::MAX, key, ttl, condition, sequence }
        }
        other => other,
    };
    let mut bytes = Vec::new();
    examples().iter().for_each(|request| request.put(&mut bytes));
    Request::detach_handles(&mut bytes).unwrap();
    let mut reader = Reader { bytes: &bytes };
    for request in examples() {
        assert_eq!(Request::parse(&mut reader), Ok(detached(request)));
    }
    reader.end().unwrap();
    Request::detach_handles(&mut bytes[..70]).expect_err("truncated");
}

#[test]
fn truncated_requests_are_refused() {
    for request in examples() {
        let mut bytes = Vec::new();
        request.put(&mut bytes);
        for cut in 0..bytes.len() {
            parse(&bytes[..cut]).expect_err("truncated");
        }
    }
}

#[test]
fn accepted_bytes_are_encoded_the_same() {
    // With one bit changed, the bytes are refused or are the encoding of another request.
    for request in examples() {
        let mut bytes = Vec::new();
        request.put(&mut bytes);
        for bit in 0..Request::HEAD * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(other) = parse(&bytes) {
                let mut again = Vec::new();
                other.put(&mut again);
                assert_eq!(again, bytes, "bit {bit} of {request:?}");
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
