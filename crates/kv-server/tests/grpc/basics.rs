//! The calls of the service.

use kv_proto::NotMet;
use kv_proto::limits::MAX_UNARY_BYTES;
use kv_proto::v1::{self, put_options::Condition};
use tonic::Code;

use crate::test_server::{TestServer, pattern, put, settings};

fn key(key: &str) -> bytes::Bytes {
    key.as_bytes().to_vec().into()
}

fn get(name: &str) -> v1::GetRequest {
    v1::GetRequest { key: key(name), ..Default::default() }
}

#[tokio::test]
async fn get_returns_the_last_put() {
    let server = TestServer::open(&settings(64 << 20));
    let mut client = server.client().await;
    assert!(!client.get(get("a")).await.unwrap().into_inner().found);
    let mut last = 0;
    for length in [0, 1, 4096, 1 << 20, (1 << 20) + 1, MAX_UNARY_BYTES] {
        let value = pattern(length);
        let stored = client.put(put("a", value.clone())).await.unwrap().into_inner();
        assert!(stored.version > last);
        assert_eq!(stored.replaced, last != 0);
        last = stored.version;
        let got = client.get(v1::GetRequest { checksum: true, ..get("a") }).await.unwrap();
        let got = got.into_inner();
        assert!(got.found && got.value == value, "{length} bytes");
        assert_eq!(got.crc32c, Some(crc32c::crc32c(&value)));
        let metadata = got.metadata.unwrap();
        assert_eq!(
            (metadata.length, metadata.version, metadata.expires_in_ms),
            (length as u64, last, None)
        );
    }
    let part = v1::GetRequest { offset: 100, length: Some(7), ..get("a") };
    let part = client.get(part).await.unwrap().into_inner();
    assert_eq!(part.value, pattern(MAX_UNARY_BYTES)[100..107]);
    assert_eq!(part.metadata.unwrap().length, MAX_UNARY_BYTES as u64);
    let past_end = v1::GetRequest { offset: u64::MAX, ..get("a") };
    assert_eq!(client.get(past_end).await.unwrap_err().code(), Code::OutOfRange);
    server.until("nothing is pinned", |usage| usage.pins == 0 && usage.reserved_bytes == 0).await;
}

#[tokio::test]
async fn a_condition_that_is_not_met_changes_nothing() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    let with = |condition| v1::PutOptions { ttl_ms: None, condition: Some(condition) };
    let conditional = |value: &str, condition| v1::PutRequest {
        options: Some(with(condition)),
        ..put("k", value)
    };
    let absent = || Condition::IfAbsent(true);
    let first = client.put(conditional("one", absent())).await.unwrap().into_inner();
    let refused = client.put(conditional("two", absent())).await.unwrap_err();
    assert_eq!(NotMet::of(&refused), Some(NotMet { current: Some(first.version) }));
    let version = Condition::IfVersion(first.version);
    let second = client.put(conditional("three", version)).await.unwrap().into_inner();
    let refused = client.put(conditional("four", version)).await.unwrap_err();
    assert_eq!(NotMet::of(&refused), Some(NotMet { current: Some(second.version) }));
    let delete = |if_version| v1::DeleteRequest { key: key("k"), if_version, write_id: None };
    let refused = client.delete(delete(Some(first.version))).await.unwrap_err();
    assert_eq!(NotMet::of(&refused), Some(NotMet { current: Some(second.version) }));
    assert_eq!(client.get(get("k")).await.unwrap().into_inner().value, "three");
    let gone = client.delete(delete(Some(second.version))).await.unwrap().into_inner();
    assert_eq!(gone, v1::DeleteReply { existed: true, version: second.version });
    let gone = client.delete(delete(None)).await.unwrap().into_inner();
    assert_eq!(gone, v1::DeleteReply { existed: false, version: 0 });
    let refused = client.put(conditional("", Condition::IfVersion(9))).await.unwrap_err();
    assert_eq!(NotMet::of(&refused), Some(NotMet { current: None }));
    assert_eq!(server.engine.index.usage().reserved_bytes, 0);
}

#[tokio::test]
async fn a_value_expires_after_its_ttl() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    let options = Some(v1::PutOptions { ttl_ms: Some(50), condition: None });
    client.put(v1::PutRequest { options, ..put("short", "lived") }).await.unwrap();
    let stat = || v1::StatRequest { key: key("short") };
    let metadata = client.stat(stat()).await.unwrap().into_inner().metadata.unwrap();
    assert!(metadata.expires_in_ms.is_some_and(|left| left <= 50));
    tokio::time::sleep(std::time::Duration::from_millis(80)).await;
    let stat = client.stat(stat()).await.unwrap().into_inner();
    assert_eq!(stat, v1::StatReply { found: false, metadata: None });
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    let long = "k".repeat(4097);
    for wrong in [put("", ""), put(&long, "")] {
        assert_eq!(client.put(wrong).await.unwrap_err().code(), Code::InvalidArgument);
    }
    let options = Some(v1::PutOptions { ttl_ms: Some(0), condition: None });
    let wrong = v1::PutRequest { options, ..put("k", "") };
    assert_eq!(client.put(wrong).await.unwrap_err().code(), Code::InvalidArgument);
    let wrong = v1::ListRequest { cursor: u64::MAX, ..Default::default() };
    assert_eq!(client.list(wrong).await.unwrap_err().code(), Code::InvalidArgument);
    let keys = vec![key("k"); 1001];
    let wrong = v1::MultiGetRequest { keys, checksum: false };
    assert_eq!(client.multi_get(wrong).await.unwrap_err().code(), Code::InvalidArgument);
    let counted = server.counts.failures().find(|(code, _)| *code == "INVALID_ARGUMENT");
    assert_eq!(counted, Some(("INVALID_ARGUMENT", 5)));
}

#[tokio::test]
async fn listings_have_every_key_once() {
    let server = TestServer::open(&settings(64 << 20));
    let mut client = server.client().await;
    for page in 0..5 {
        let items = (0..700).map(|at| put(&format!("key/{page}/{at}"), "x")).collect();
        let stored = client.multi_put(v1::MultiPutRequest { items }).await.unwrap().into_inner();
        assert!(
            stored.results.iter().all(|result| {
                matches!(result.outcome, Some(v1::put_result::Outcome::Reply(_)))
            })
        );
    }
    client.put(put("other", "")).await.unwrap();
    let (mut seen, mut cursor) = (std::collections::BTreeSet::new(), 0);
    loop {
        let list = v1::ListRequest { prefix: key("key/"), cursor, limit: 300 };
        let page = client.list(list).await.unwrap().into_inner();
        assert!(page.keys.len() <= 300);
        for key in page.keys {
            assert_eq!(key.metadata.unwrap().length, 1);
            assert!(seen.insert(key.key), "listed twice");
        }
        cursor = page.next_cursor;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen.len(), 3500);
}

#[tokio::test]
async fn a_multi_get_returns_the_values_that_fit() {
    use v1::get_result::Outcome;
    let server = TestServer::open(&settings(64 << 20));
    let mut client = server.client().await;
    client.put(put("half", pattern(MAX_UNARY_BYTES / 2))).await.unwrap();
    client.put(put("most", pattern(MAX_UNARY_BYTES - 10))).await.unwrap();
    client.put(put("small", "x")).await.unwrap();
    let keys = ["small", "half", "most", "none", "small"].map(key).to_vec();
    let got = client.multi_get(v1::MultiGetRequest { keys, checksum: true }).await.unwrap();
    let mut outcomes = got.into_inner().results.into_iter().map(|result| result.outcome.unwrap());
    let Some(Outcome::Reply(small)) = outcomes.next() else { panic!() };
    assert_eq!((small.value, small.crc32c), ("x".into(), Some(crc32c::crc32c(b"x"))));
    let Some(Outcome::Reply(half)) = outcomes.next() else { panic!() };
    assert_eq!(half.value.len(), MAX_UNARY_BYTES / 2);
    let Some(Outcome::Error(most)) = outcomes.next() else { panic!() };
    assert_eq!(most.code, Code::OutOfRange as u32);
    let Some(Outcome::Reply(none)) = outcomes.next() else { panic!() };
    assert!(!none.found);
    assert!(matches!(outcomes.next(), Some(Outcome::Reply(last)) if last.found));
    // A thousand long refusals and replies fit too.
    let keys = vec![key("half"); 1000];
    let got = client.multi_get(v1::MultiGetRequest { keys, checksum: true }).await.unwrap();
    assert_eq!(got.into_inner().results.len(), 1000);
}

#[tokio::test]
async fn items_of_a_multi_put_are_refused_on_their_own() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    let absent = Some(v1::PutOptions { ttl_ms: None, condition: Some(Condition::IfAbsent(true)) });
    let once = v1::PutRequest { options: absent, ..put("a", "1") };
    let items = vec![once.clone(), once, put("", "2"), put("b", "3")];
    let stored = client.multi_put(v1::MultiPutRequest { items }).await.unwrap().into_inner();
    let codes: Vec<u32> = stored
        .results
        .into_iter()
        .map(|result| match result.outcome.unwrap() {
            v1::put_result::Outcome::Reply(_) => 0,
            v1::put_result::Outcome::Error(error) => error.code,
        })
        .collect();
    assert_eq!(codes, [0, Code::FailedPrecondition as u32, Code::InvalidArgument as u32, 0]);
}

#[tokio::test]
async fn info_describes_the_server() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    client.put(put("a", "value")).await.unwrap();
    let info = client.info(v1::InfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.version.as_str(), info.epoch), ("9.9", server.engine.epoch()));
    let limits = info.limits.unwrap();
    assert_eq!((limits.max_value_bytes, limits.max_items), (16 << 20, 1000));
    let pool = info.pool.unwrap();
    assert_eq!((pool.capacity_bytes, pool.keys), (16 << 20, 1));
    assert_eq!(info.transports[0].name, "tcp");
}
