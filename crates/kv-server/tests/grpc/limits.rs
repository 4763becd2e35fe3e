//! Limits, and the errors of a full store.

use std::time::{Duration, Instant};

use access::{Access, Identity, Scope};
use fabric::session::{Key, Keyring};
use kv_proto::limits::{MAX_MESSAGE_BYTES, MAX_UNARY_BYTES};
use kv_proto::v1::{self, kv_client::KvClient, write_request::Part};
use kv_store::WhenFull;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;

use crate::test_server::{TestServer, pattern, put, settings};

fn write(key: &str, length: u64) -> v1::WriteRequest {
    let key = key.as_bytes().to_vec().into();
    let start = v1::WriteStart { key, length, options: None, write_id: None };
    v1::WriteRequest { part: Some(Part::Start(start)) }
}

#[tokio::test]
async fn a_full_store_that_does_not_evict_refuses() {
    let mut settings = settings(8 << 20);
    settings.when_full = WhenFull::Refuse;
    let server = TestServer::open(&settings);
    let mut client = server.client().await;
    for at in 0..3 {
        client.put(put(&format!("k{at}"), pattern(2 << 20))).await.unwrap();
    }
    let full = client.put(put("more", pattern(3 << 20))).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted);
    assert!(full.message().contains("out of memory for"), "{}", full.message());
    let full = client.write(tokio_stream::once(write("more", 3 << 20))).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted);
    let usage = server.engine.index.usage();
    assert_eq!((usage.keys, usage.reserved_bytes, usage.evicted), (3, 0, 0));
}

#[tokio::test]
async fn a_value_too_long_is_refused_before_it_is_sent() {
    let mut settings = settings(16 << 20);
    settings.max_value = Some(3 << 20);
    let server = TestServer::open(&settings);
    let mut client = server.client().await;
    let long = client.put(put("k", pattern((3 << 20) + 1))).await.unwrap_err();
    assert_eq!(long.code(), Code::InvalidArgument);
    assert!(long.message().contains("3145728 bytes at most"), "{}", long.message());
    for length in [(3 << 20) + 1, u64::MAX] {
        let long = client.write(tokio_stream::once(write("k", length))).await.unwrap_err();
        assert_eq!(long.code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn a_message_too_long_is_refused_with_a_fix() {
    let server = TestServer::open(&settings(64 << 20));
    let mut client = server.client().await;
    let long = client.put(put("k", pattern(MAX_UNARY_BYTES + 1))).await.unwrap_err();
    assert_eq!(long.code(), Code::OutOfRange);
    assert!(long.message().contains("use Write"), "{}", long.message());
    for length in [MAX_MESSAGE_BYTES + 1, 8 << 20] {
        let long = client.put(put("k", pattern(length))).await.unwrap_err();
        assert_eq!(long.code(), Code::OutOfRange, "{long}");
        assert!(long.message().contains("use Write"), "{}", long.message());
    }
    let items = vec![put("k", pattern(1 << 20)); 5];
    let long = client.multi_put(v1::MultiPutRequest { items }).await.unwrap_err();
    assert_eq!(long.code(), Code::OutOfRange, "{long}");
    assert!(long.message().contains("use several calls, or Write"), "{}", long.message());
    let data = v1::WriteRequest { part: Some(Part::Data(pattern(MAX_MESSAGE_BYTES + 1).into())) };
    let chunks = tokio_stream::iter([write("k", 8 << 20), data]);
    let long = client.write(chunks).await.unwrap_err();
    assert_eq!(long.code(), Code::OutOfRange, "{long}");
    assert!(long.message().contains("use shorter chunks"), "{}", long.message());
}

#[tokio::test]
async fn anonymous_calls_are_refused_if_authentication_is_required() {
    let no_identities = Access::new(Keyring::new(), Vec::new(), false, None).unwrap();
    let server = TestServer::open_for(&settings(16 << 20), no_identities);
    let mut client = server.client().await;
    let refused = client.put(put("k", "v")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert!(refused.message().contains("authorization: Bearer TOKEN"), "{}", refused.message());
    let refused = client.info(v1::InfoRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let read = v1::ReadRequest { key: "k".into(), ..Default::default() };
    assert_eq!(client.read(read).await.unwrap_err().code(), Code::Unauthenticated);
    assert_eq!(server.engine.index.usage().keys, 0);
}

/// Requests without end, by an unauthenticated caller, on one connection.
async fn endless(server: &TestServer, streams: usize) -> Vec<JoinHandle<Code>> {
    let channel = server.channel().await;
    let call = |_| {
        let mut client = KvClient::new(channel.clone());
        tokio::spawn(async move {
            let chunks = tokio_stream::once(write("k", 8)).chain(tokio_stream::pending());
            client.write(chunks).await.map_or_else(|status| status.code(), |_| Code::Ok)
        })
    };
    (0..streams).map(call).collect()
}

#[tokio::test]
async fn an_unauthenticated_call_is_refused_before_its_request_arrives() {
    let identities =
        vec![Identity::keyed(Key::from_token("ann", TOKEN).unwrap(), Scope::everything())];
    let access = Access::new(Keyring::new(), identities, false, None).unwrap();
    let server = TestServer::open_for(&settings(16 << 20), access);
    let mut unknown = Vec::new();
    for _ in 0..6 {
        unknown.extend(endless(&server, 100).await);
    }
    for call in unknown {
        assert_eq!(call.await.unwrap(), Code::Unauthenticated);
    }
    let mut known = tonic::Request::new(v1::InfoRequest {});
    known.metadata_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
    server.client().await.info(known).await.unwrap();
}

#[tokio::test]
async fn silent_connections_are_evicted_for_callers() {
    let server = TestServer::open(&settings(16 << 20));
    let mut silent = Vec::new();
    for _ in 0..600 {
        let mut socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        // The last bytes are settings; writing them fails if the connection is already closed.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut socket, preface).await;
        silent.push(socket);
    }
    // These may be more than fit into the listener's queue: then the client retries.
    let limit = Instant::now() + Duration::from_secs(60);
    while server.client().await.put(put("k", "v")).await.is_err() {
        assert!(Instant::now() < limit, "no caller is accepted");
    }
    assert!(server.counts.connections() > 1 && server.counts.refused() > 0);
}

#[tokio::test]
async fn one_identity_leaves_connections_for_others() {
    let tokens = ["many", "other"].map(|name| (name, format!("wlt_{name}")));
    let identities = tokens.iter().map(|(name, token)| {
        Identity::keyed(Key::from_token(name, token).unwrap(), Scope::new(false, b""))
    });
    let access = Access::new(Keyring::new(), identities.collect(), false, None).unwrap();
    let server = TestServer::open_for(&settings(16 << 20), access);
    let call = async |name: &str| {
        let mut request = tonic::Request::new(v1::InfoRequest {});
        let header = format!("Bearer wlt_{name}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
        let mut client = server.client().await;
        let called = client.info(request).await;
        (client, called.map_or_else(|status| status.code(), |_| Code::Ok))
    };
    let mut open = Vec::new();
    for _ in 0..520 {
        open.push(call("many").await);
    }
    let of = |code| open.iter().filter(|(_, got)| *got == code).count();
    assert_eq!((of(Code::Ok), of(Code::ResourceExhausted)), (384, 136), "of 512 places");
    assert_eq!(call("other").await.1, Code::Ok);
}

/// These services are open to every caller.
#[tokio::test]
async fn watchers_of_health_leave_calls_for_others() {
    let server = TestServer::open(&settings(16 << 20));
    let request = || HealthCheckRequest { service: String::new() };
    let (mut watching, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let mut health = HealthClient::new(server.channel().await);
        for _ in 0..100 {
            match health.watch(request()).await {
                Ok(answers) => watching.push(answers),
                Err(status) => refused.push(status.code()),
            }
        }
    }
    assert_eq!((watching.len(), refused.len()), (384, 116), "of 512 calls");
    assert!(refused.iter().all(|code| *code == Code::ResourceExhausted), "{refused:?}");
    let mut health = HealthClient::new(server.channel().await);
    health.check(request()).await.expect("a check is always answered");
    let mut reflection = ServerReflectionClient::new(server.channel().await);
    let none = tokio_stream::empty::<ServerReflectionRequest>();
    reflection.server_reflection_info(none).await.expect("another service is answered");
    drop(watching);
    let limit = Instant::now() + Duration::from_secs(60);
    while health.watch(request()).await.is_err() {
        assert!(Instant::now() < limit, "calls that have ended are still counted");
    }
}

const TOKEN: &str = "wlt_0123456789abcdef0123456789abcdef";
