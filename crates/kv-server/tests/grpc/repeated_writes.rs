//! Writes that are repeated with the same write id.

use kv_proto::v1;
use kv_proto::v1::kv_client::KvClient;
use tonic::Code;
use tonic::transport::Channel;

use crate::test_server::{TestServer, put, settings};

async fn session(client: &mut KvClient<Channel>) -> v1::Session {
    client.open_session(v1::OpenSessionRequest {}).await.unwrap().into_inner()
}

fn write_id(session: &v1::Session, sequence: u64) -> Option<v1::WriteId> {
    Some(v1::WriteId { session: session.id.clone(), sequence })
}

#[tokio::test]
async fn a_repeated_write_is_executed_once_and_gets_its_first_answer() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    let session = session(&mut client).await;
    assert_eq!(session.epoch, server.engine.epoch());
    let again = || v1::PutRequest { write_id: write_id(&session, 1), ..put("k", "one") };
    let first = client.put(again()).await.unwrap().into_inner();
    client.put(put("k", "between")).await.unwrap();
    // From another connection, as after a failure.
    let mut other = server.client().await;
    assert_eq!(other.put(again()).await.unwrap().into_inner(), first);
    let get = v1::GetRequest { key: "k".into(), ..Default::default() };
    assert_eq!(client.get(get).await.unwrap().into_inner().value, "between");

    let delete = |sequence| v1::DeleteRequest {
        key: "k".into(),
        if_version: None,
        write_id: write_id(&session, sequence),
    };
    let gone = client.delete(delete(2)).await.unwrap().into_inner();
    assert!(gone.existed);
    assert_eq!(client.delete(delete(2)).await.unwrap().into_inner(), gone);
    assert!(!client.delete(delete(3)).await.unwrap().into_inner().existed);
    assert_eq!(
        client
            .put(v1::PutRequest { write_id: write_id(&session, 3), ..put("k", "x") })
            .await
            .unwrap_err()
            .code(),
        Code::InvalidArgument,
        "a number used twice"
    );
}

#[tokio::test]
async fn a_refused_write_stays_refused() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    let session = session(&mut client).await;
    client.put(put("k", "one")).await.unwrap();
    let delete = || v1::DeleteRequest {
        key: "k".into(),
        if_version: Some(1),
        write_id: write_id(&session, 1),
    };
    let first = client.delete(delete()).await.unwrap_err();
    client.put(put("k", "two")).await.unwrap();
    let second = client.delete(delete()).await.unwrap_err();
    assert_eq!(first.code(), Code::FailedPrecondition);
    assert_eq!(first.metadata().get("wirelane-version"), second.metadata().get("wirelane-version"));
}

#[tokio::test]
async fn an_unknown_session_is_refused() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    let invented = v1::Session { id: vec![7; 16].into(), ..Default::default() };
    let unknown = v1::PutRequest { write_id: write_id(&invented, 1), ..put("k", "one") };
    let status = client.put(unknown).await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert!(status.message().contains("has done nothing"), "{}", status.message());
    let session = session(&mut client).await;
    for (wrong, code) in [
        (v1::WriteId { session: "short".into(), sequence: 1 }, Code::InvalidArgument),
        (v1::WriteId { session: session.id.clone(), sequence: 0 }, Code::InvalidArgument),
    ] {
        let wrong = v1::PutRequest { write_id: Some(wrong), ..put("k", "one") };
        assert_eq!(client.put(wrong).await.unwrap_err().code(), code);
    }
    assert_eq!(server.engine.index.usage().keys, 0);
}

#[tokio::test]
async fn numbers_may_arrive_in_any_order_within_the_window() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    let session = session(&mut client).await;
    let far = session.window + 1;
    for sequence in [far, 1, far * 2, far + 1] {
        let write = v1::PutRequest { write_id: write_id(&session, sequence), ..put("k", "x") };
        client.put(write).await.unwrap();
    }
    let ahead = v1::PutRequest { write_id: write_id(&session, 1 << 40), ..put("k", "x") };
    assert_eq!(client.put(ahead).await.unwrap_err().code(), Code::Unknown);
}

#[tokio::test]
async fn a_write_to_a_full_store_may_be_retried() {
    let mut small = settings(4 << 20);
    small.when_full = kv_store::WhenFull::Refuse;
    let server = TestServer::open(&small);
    let mut client = server.client().await;
    let session = session(&mut client).await;
    client.put(put("large", vec![1; 3 << 20])).await.unwrap();
    let write = || v1::PutRequest { write_id: write_id(&session, 1), ..put("k", vec![2; 2 << 20]) };
    let full = client.put(write()).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted, "{full}");
    let delete = v1::DeleteRequest { key: "large".into(), ..Default::default() };
    client.delete(delete).await.unwrap();
    client.put(write()).await.unwrap();
}
