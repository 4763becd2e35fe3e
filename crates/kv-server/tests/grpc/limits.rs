//! What is refused, and what a full store says.

use fabric::session::Keyring;
use kv_proto::limits::{MOST_MESSAGE_BYTES, MOST_UNARY_BYTES};
use kv_proto::v1::{self, write_request::Part};
use kv_server::access::Access;
use kv_store::WhenFull;
use tonic::Code;

use crate::place::{Place, pattern, put, settings};

fn write(key: &str, length: u64) -> v1::WriteRequest {
    let key = key.as_bytes().to_vec().into();
    let start = v1::WriteStart { key, length, options: None, attempt: None };
    v1::WriteRequest { part: Some(Part::Start(start)) }
}

#[tokio::test]
async fn a_full_store_that_loses_nothing_refuses() {
    let mut settings = settings(8 << 20);
    settings.when_full = WhenFull::Refuse;
    let place = Place::open(&settings);
    let mut client = place.client().await;
    for at in 0..3 {
        client.put(put(&format!("k{at}"), pattern(2 << 20))).await.unwrap();
    }
    let full = client.put(put("more", pattern(3 << 20))).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted);
    assert!(full.message().contains("no room for"), "{}", full.message());
    let full = client.write(tokio_stream::once(write("more", 3 << 20))).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted);
    let usage = place.engine.store.usage();
    assert_eq!((usage.keys, usage.reserved_bytes, usage.evicted), (3, 0, 0));
}

#[tokio::test]
async fn a_value_too_long_is_refused_before_it_comes() {
    let mut settings = settings(16 << 20);
    settings.most_value = Some(3 << 20);
    let place = Place::open(&settings);
    let mut client = place.client().await;
    let long = client.put(put("k", pattern((3 << 20) + 1))).await.unwrap_err();
    assert_eq!(long.code(), Code::InvalidArgument);
    assert!(long.message().contains("3145728 bytes at most"), "{}", long.message());
    for length in [(3 << 20) + 1, u64::MAX] {
        let long = client.write(tokio_stream::once(write("k", length))).await.unwrap_err();
        assert_eq!(long.code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn a_message_too_long_is_refused_with_what_to_use() {
    let place = Place::open(&settings(64 << 20));
    let mut client = place.client().await;
    let long = client.put(put("k", pattern(MOST_UNARY_BYTES + 1))).await.unwrap_err();
    assert_eq!(long.code(), Code::OutOfRange);
    assert!(long.message().contains("use Write"), "{}", long.message());
    let long = client.put(put("k", pattern(MOST_MESSAGE_BYTES + 1))).await.unwrap_err();
    assert_eq!(long.code(), Code::OutOfRange, "{long}");
}

#[tokio::test]
async fn where_callers_must_show_who_they_are_nobody_reads_or_writes() {
    let nobody = Access::new(Keyring::new(), Vec::new(), false, None).unwrap();
    let place = Place::open_for(&settings(16 << 20), nobody);
    let mut client = place.client().await;
    let refused = client.put(put("k", "v")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert!(refused.message().contains("authorization: Bearer TOKEN"), "{}", refused.message());
    let refused = client.info(v1::InfoRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let read = v1::ReadRequest { key: "k".into(), ..Default::default() };
    assert_eq!(client.read(read).await.unwrap_err().code(), Code::Unauthenticated);
    assert_eq!(place.engine.store.usage().keys, 0);
}
