//! Fuzz targets: each takes any bytes, and panics only on a bug.

/// Messages of clients and stores: whatever parses must encode to the same bytes.
pub fn messages(bytes: &[u8]) {
    use crate::wire::{Answer, ClientHello, Entries, Message, ServerHello};
    if let Ok(hello) = ClientHello::parse(bytes) {
        assert_eq!(hello.to_bytes(), bytes);
    }
    if let Ok(hello) = ServerHello::parse(bytes) {
        assert_eq!(hello.to_bytes(), bytes);
    }
    if let Ok(answer) = Answer::parse(bytes) {
        // Not compared with the bytes: the value of an absent checksum or expiry is ignored.
        assert_eq!(Answer::parse(&answer.to_bytes()), Ok(answer));
    }
    let mut listed = Vec::new();
    if Entries::new(bytes)
        .map(|entry| entry.map(|entry| entry.put(&mut listed)))
        .all(|all| all.is_ok())
    {
        assert_eq!(listed, bytes);
    }
    match Message::parse(bytes) {
        Ok(Message::Batch(batch)) => {
            let mut again = batch.head.to_bytes().to_vec();
            let encoded = batch.map(|request| request.map(|request| request.put(&mut again)));
            if encoded.fold(true, |complete, request| complete & request.is_ok()) {
                assert_eq!(again, bytes);
            }
        }
        Ok(Message::Grant(grant)) => assert_eq!(grant.to_bytes(), bytes),
        Ok(Message::Revoke { .. } | Message::CheckSlots) | Err(_) => {}
    }
}
