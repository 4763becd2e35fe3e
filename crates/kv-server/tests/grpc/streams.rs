//! Values in chunks.

use std::time::Duration;

use kv_proto::v1::read_reply::Part;
use kv_proto::v1::{self, write_request};
use tokio::sync::mpsc;
use tonic::{Code, Status, Streaming};

use crate::test_server::{TestServer, pattern, put, settings};

fn start(key: &str, length: usize) -> v1::WriteStart {
    let key = key.as_bytes().to_vec().into();
    v1::WriteStart { key, length: length as u64, options: None, write_id: None }
}

fn request(part: write_request::Part) -> v1::WriteRequest {
    v1::WriteRequest { part: Some(part) }
}

/// `start` and the value in chunks.
fn written(
    start: v1::WriteStart,
    value: &[u8],
) -> impl tokio_stream::Stream<Item = v1::WriteRequest> + use<> {
    let mut parts = vec![request(write_request::Part::Start(start))];
    parts.extend(
        value
            .chunks(700_000)
            .map(|chunk| request(write_request::Part::Data(chunk.to_vec().into()))),
    );
    tokio_stream::iter(parts)
}

fn read(key: &str) -> v1::ReadRequest {
    v1::ReadRequest { key: key.as_bytes().to_vec().into(), ..Default::default() }
}

/// The start, all bytes, and the checksum of a complete stream.
async fn collect(
    stream: &mut Streaming<v1::ReadReply>,
) -> Result<(v1::ReadStart, Vec<u8>, Option<u32>), Status> {
    let mut next = async || stream.message().await.map(|reply| reply.and_then(|reply| reply.part));
    let Some(Part::Start(start)) = next().await? else { panic!("no start") };
    let mut bytes = Vec::new();
    loop {
        match next().await? {
            Some(Part::Data(chunk)) => bytes.extend_from_slice(&chunk),
            Some(Part::End(end)) => {
                assert_eq!(next().await?, None);
                return Ok((start, bytes, end.crc32c));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn long_values_are_written_and_read_in_chunks() {
    let server = TestServer::open(&settings(128 << 20));
    let mut client = server.client().await;
    let value = pattern(50 << 20);
    let stored = client.write(written(start("long", value.len()), &value)).await.unwrap();
    let get = v1::GetRequest { key: "long".into(), ..Default::default() };
    assert_eq!(client.get(get).await.unwrap_err().code(), Code::OutOfRange);
    let request = v1::ReadRequest { checksum: true, ..read("long") };
    let mut stream = client.read(request).await.unwrap().into_inner();
    let (start, bytes, sum) = collect(&mut stream).await.unwrap();
    assert_eq!(start.metadata.unwrap().version, stored.into_inner().version);
    assert_eq!((start.length, start.found), (50 << 20, true));
    assert!(bytes == value);
    assert_eq!(sum, Some(crc32c::crc32c(&value)));
    let part = v1::ReadRequest {
        offset: 20 << 20,
        length: Some(5 << 20),
        chunk_bytes: 1000,
        ..read("long")
    };
    let mut stream = client.read(part).await.unwrap().into_inner();
    let (_, bytes, sum) = collect(&mut stream).await.unwrap();
    assert!(bytes == value[20 << 20..25 << 20] && sum.is_none());
    let usage = server.engine.index.usage();
    assert_eq!((usage.pins, usage.reserved_bytes), (0, 0));
    assert_eq!(
        server.engine.counts().bytes_in.load(std::sync::atomic::Ordering::Relaxed),
        50 << 20
    );
}

#[tokio::test]
async fn a_missing_key_is_a_short_stream() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    let mut stream = client.read(read("none")).await.unwrap().into_inner();
    let (head, bytes, _) = collect(&mut stream).await.unwrap();
    assert!(!head.found && bytes.is_empty());
    client.write(written(start("empty", 0), b"")).await.unwrap();
    let mut stream = client.read(read("empty")).await.unwrap().into_inner();
    let (head, bytes, _) = collect(&mut stream).await.unwrap();
    assert!(head.found && bytes.is_empty());
}

#[tokio::test]
async fn a_stream_is_of_one_version_despite_concurrent_writes() {
    let server = TestServer::open(&settings(64 << 20));
    let mut client = server.client().await;
    let value = pattern(20 << 20);
    client.write(written(start("k", value.len()), &value)).await.unwrap();
    let mut stream = client.read(read("k")).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert!(matches!(first.part, Some(Part::Start(_))));
    client.put(put("k", "another")).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(v1::ReadReply { part: Some(part) }) = stream.message().await.unwrap() {
        if let Part::Data(chunk) = part {
            bytes.extend_from_slice(&chunk);
        }
    }
    assert!(bytes == value);
    server.until("the old version is freed", |usage| usage.used_bytes < 1 << 20).await;
}

#[tokio::test]
async fn a_cancelled_stream_leaves_no_pin_and_no_reservation() {
    let server = TestServer::open(&settings(64 << 20));
    let mut client = server.client().await;
    let value = pattern(20 << 20);
    client.write(written(start("k", value.len()), &value)).await.unwrap();
    let mut stream = client.read(read("k")).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    server.until("it is pinned", |usage| usage.pins == 1).await;
    drop(stream);
    server.until("it is unpinned", |usage| usage.pins == 0).await;

    let (chunks, sent) = mpsc::channel(4);
    chunks.send(request(write_request::Part::Start(start("w", 10 << 20)))).await.unwrap();
    chunks.send(request(write_request::Part::Data(vec![1; 1 << 20].into()))).await.unwrap();
    let mut writer = client.clone();
    let call = tokio::spawn(async move {
        let sent = tokio_stream::StreamExt::fuse(Chunks(sent));
        writer.write(sent).await
    });
    server.until("memory is reserved", |usage| usage.reserved_bytes == 10 << 20).await;
    call.abort();
    server.until("the memory is free", |usage| usage.reserved_bytes == 0).await;
    drop(chunks);
    assert_eq!(server.engine.index.usage().keys, 1);
}

/// A stream of the chunks sent on a channel.
struct Chunks(mpsc::Receiver<v1::WriteRequest>);

impl tokio_stream::Stream for Chunks {
    type Item = v1::WriteRequest;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

#[tokio::test]
async fn an_invalid_stream_changes_nothing() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    let data = |bytes: &str| request(write_request::Part::Data(bytes.as_bytes().to_vec().into()));
    let started = |length| request(write_request::Part::Start(start("k", length)));
    for wrong in [
        vec![],
        vec![data("abc")],
        vec![started(4), data("abc")],
        vec![started(2), data("abc")],
        vec![started(3), started(3), data("abc")],
        vec![started(3), v1::WriteRequest { part: None }],
    ] {
        let status = client.write(tokio_stream::iter(wrong)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    let usage = server.engine.index.usage();
    assert_eq!((usage.keys, usage.reserved_bytes), (0, 0));
}

#[tokio::test]
async fn a_repeated_stream_gets_its_first_answer() {
    let server = TestServer::open(&settings(64 << 20));
    let mut client = server.client().await;
    let session = client.open_session(v1::OpenSessionRequest {}).await.unwrap().into_inner();
    let value = pattern(6 << 20);
    let write_id = Some(v1::WriteId { session: session.id, sequence: 1 });
    let start = v1::WriteStart { write_id, ..start("k", value.len()) };
    let first = client.write(written(start.clone(), &value)).await.unwrap().into_inner();
    let again = client.write(written(start, &value)).await.unwrap().into_inner();
    assert_eq!(first, again);
    assert_eq!(server.engine.index.usage().puts, 1);
}

#[tokio::test]
async fn stalled_clients_do_not_hold_memory_for_long() {
    let mut settings = settings(64 << 20);
    settings.idle_timeout = Duration::from_millis(400);
    let server = TestServer::open(&settings);
    let mut client = server.client().await;
    let value = pattern(20 << 20);
    client.write(written(start("k", value.len()), &value)).await.unwrap();

    let (chunks, sent) = mpsc::channel(4);
    chunks.send(request(write_request::Part::Start(start("w", 10 << 20)))).await.unwrap();
    let status = client.write(Chunks(sent)).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    server.until("the memory is free", |usage| usage.reserved_bytes == 0).await;

    // A separate connection, which is closed.
    let mut reader = server.client().await;
    let mut stream = reader.read(read("k")).await.unwrap().into_inner();
    server.until("it is pinned", |usage| usage.pins == 1).await;
    server.until("it is unpinned", |usage| usage.pins == 0).await;
    assert!(collect(&mut stream).await.is_err(), "the stream is incomplete");
    assert!(server.counts.stalled() > 0);
    client.put(put("other", "caller")).await.unwrap();
}
