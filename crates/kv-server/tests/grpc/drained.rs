//! A server that drains: calls in flight finish, new ones are rejected.

use std::time::Duration;

use access::Phase;
use kv_proto::v1::{self, write_request::Part};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::test_server::{TestServer, pattern, put, settings};

#[tokio::test]
async fn calls_in_flight_finish_and_new_ones_are_rejected() {
    let mut server = TestServer::open(&settings(16 << 20));
    let (mut client, mut other) = (server.client().await, server.client().await);
    let mut health = HealthClient::new(server.channel().await);
    other.put(put("before", "v")).await.unwrap();
    let (chunks, stream) = mpsc::channel(4);
    let start = v1::WriteStart { key: "long".into(), length: 3000, options: None, write_id: None };
    let chunk = |part| v1::WriteRequest { part: Some(part) };
    chunks.send(chunk(Part::Start(start))).await.unwrap();
    let writing = tokio::spawn(async move {
        client.write(tokio_stream::wrappers::ReceiverStream::new(stream)).await
    });
    server.until("the stream has started", |usage| usage.reserved_bytes > 0).await;

    server.life.send(Phase::Draining).unwrap();
    let service = || HealthCheckRequest { service: kv_proto::SERVICE.to_owned() };
    let limit = Duration::from_secs(20);
    let closed = async {
        while health.check(service()).await.unwrap().into_inner().status == 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(limit, closed).await.expect("health reports NOT_SERVING");
    let refused = other.put(put("after", "v")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("shutting down"), "{}", refused.message());
    // New connections get the same answer.
    let refused = server.client().await.put(put("after", "v")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);

    let mut drained = server.drained.take().unwrap();
    assert!(drained.try_recv().is_err(), "a call is in flight");
    chunks.send(chunk(Part::Data(pattern(3000).into()))).await.unwrap();
    drop(chunks);
    writing.await.unwrap().unwrap();
    timeout(limit, drained).await.unwrap().unwrap();
    let usage = server.engine.index.usage();
    assert_eq!((usage.keys, usage.reserved_bytes), (2, 0));
    server.stop().await;
}

/// When the quota is used up, another stream is refused, and accepted when the first has ended.
#[tokio::test]
async fn streams_have_a_quota() {
    let mut settings = settings(16 << 20);
    settings.max_in_flight = Some(2 << 20);
    let server = TestServer::open(&settings);
    let mut client = server.client().await;
    // On the same connection, which may use half of it.
    let mut other = client.clone();
    let start = |key: &'static str| {
        let start =
            v1::WriteStart { key: key.into(), length: 700_000, options: None, write_id: None };
        v1::WriteRequest { part: Some(Part::Start(start)) }
    };
    let (chunks, stream) = mpsc::channel(4);
    chunks.send(start("one")).await.unwrap();
    let writing = tokio::spawn(async move {
        client.write(tokio_stream::wrappers::ReceiverStream::new(stream)).await
    });
    server.until("the stream has started", |usage| usage.reserved_bytes > 0).await;
    let busy = other.write(tokio_stream::once(start("two"))).await.unwrap_err();
    assert_eq!(busy.code(), Code::ResourceExhausted);
    assert!(busy.message().contains("--max-in-flight"), "{}", busy.message());
    assert_eq!(server.engine.quota().refused(), 1);
    server.client().await.put(put("three", pattern(700_000))).await.unwrap();
    drop(chunks);
    writing.await.unwrap().unwrap_err();
    server.until("its memory is free", |usage| usage.reserved_bytes == 0).await;
    assert_eq!(server.engine.quota().used(), 0);
    other.put(put("four", pattern(700_000))).await.unwrap();
}
