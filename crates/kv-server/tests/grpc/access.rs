//! Access control: tokens in the header, and their scopes.

use std::num::NonZeroU32;
use std::sync::Arc;

use access::{Access, Identity, Refused, Scope};
use fabric::session::{Key, Keyring};
use kv_proto::v1::{self, get_result, put_result};
use tonic::{Code, Request};

use crate::test_server::{TestServer, put, settings};

fn access(identities: &[(&str, Scope)], rate: Option<u32>) -> Arc<Access> {
    let identity = |(name, scope): &(&str, Scope)| {
        Identity::keyed(Key::from_token(name, &format!("wlt_{name}")).unwrap(), scope.clone())
    };
    let identities = identities.iter().map(identity).collect();
    Access::new(Keyring::new(), identities, false, rate.and_then(NonZeroU32::new)).unwrap()
}

/// A request with this identity's token.
fn of<T>(name: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let header = format!("Bearer wlt_{name}").parse().unwrap();
    request.metadata_mut().insert("authorization", header);
    request
}

fn team() -> Arc<Access> {
    let scopes = [
        ("root", Scope::everything()),
        ("reader", Scope::new(false, b"")),
        ("team", Scope::new(true, b"team/")),
    ];
    access(&scopes, None)
}

#[tokio::test]
async fn a_token_is_limited_to_its_scope() {
    let server = TestServer::open_for(&settings(16 << 20), team());
    let mut client = server.client().await;
    let stat = |key: &str| v1::StatRequest { key: key.as_bytes().to_vec().into() };
    let get =
        |key: &str| v1::GetRequest { key: key.as_bytes().to_vec().into(), ..Default::default() };
    let delete =
        |key: &str| v1::DeleteRequest { key: key.as_bytes().to_vec().into(), ..Default::default() };
    client.put(of("root", put("other/a", "1"))).await.unwrap();
    client.put(of("team", put("team/a", "2"))).await.unwrap();
    assert!(client.get(of("reader", get("team/a"))).await.unwrap().into_inner().found);
    for refused in [
        client.put(of("reader", put("team/a", "3"))).await.map(drop),
        client.delete(of("reader", delete("team/a"))).await.map(drop),
        client.put(of("team", put("other/a", "3"))).await.map(drop),
        client.get(of("team", get("other/a"))).await.map(drop),
        client.stat(of("team", stat("other/none"))).await.map(drop),
        client.delete(of("team", delete("team"))).await.map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        assert!(refused.message().contains("token file"), "{}", refused.message());
    }
    assert_eq!(client.get(get("team/a")).await.unwrap_err().code(), Code::Unauthenticated);
    let unknown = client.get(of("unknown", get("team/a"))).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unauthenticated);
    let refusals = server.engine.access().refusals();
    assert_eq!(refusals.of(Refused::Scope), 6);
    assert_eq!((refusals.of(Refused::WrongToken), refusals.of(Refused::NoCredentials)), (1, 1));
    let value = client.get(of("root", get("team/a"))).await.unwrap().into_inner().value;
    assert_eq!(value, "2", "refused writes changed nothing");
}

#[tokio::test]
async fn a_listing_is_limited_to_the_scope() {
    let server = TestServer::open_for(&settings(16 << 20), team());
    let mut client = server.client().await;
    for key in ["a", "team/a", "team/b", "teams"] {
        client.put(of("root", put(key, "v"))).await.unwrap();
    }
    let mut listed = async |who: &str, prefix: &str| {
        let request =
            v1::ListRequest { prefix: prefix.as_bytes().to_vec().into(), ..Default::default() };
        let reply = client.list(of(who, request)).await?.into_inner();
        let mut keys: Vec<_> = reply.keys.into_iter().map(|key| key.key).collect();
        keys.sort();
        Ok::<_, tonic::Status>(keys)
    };
    assert_eq!(listed("team", "").await.unwrap(), ["team/a", "team/b"]);
    assert_eq!(listed("team", "team/b").await.unwrap(), ["team/b"]);
    assert_eq!(listed("team", "a").await.unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(listed("reader", "").await.unwrap().len(), 4);
    for (who, has_pool) in [("reader", true), ("team", false)] {
        let info = client.info(of(who, v1::InfoRequest {})).await.unwrap().into_inner();
        assert_eq!(info.pool.is_some(), has_pool, "the usage of the pool, for {who}");
    }
}

#[tokio::test]
async fn items_of_one_call_are_checked_one_by_one() {
    let server = TestServer::open_for(&settings(16 << 20), team());
    let mut client = server.client().await;
    let items = vec![put("team/a", "1"), put("a", "2")];
    let results =
        client.multi_put(of("team", v1::MultiPutRequest { items })).await.unwrap().into_inner();
    let codes = results.results.iter().map(|result| match &result.outcome {
        Some(put_result::Outcome::Error(refusal)) => refusal.code,
        _ => 0,
    });
    assert_eq!(codes.collect::<Vec<_>>(), [0, Code::PermissionDenied as u32]);
    let keys = vec!["team/a".into(), "a".into()];
    let request = v1::MultiGetRequest { keys, ..Default::default() };
    let results = client.multi_get(of("team", request)).await.unwrap().into_inner();
    let found = results.results.iter().map(|result| match &result.outcome {
        Some(get_result::Outcome::Reply(reply)) => reply.found,
        _ => false,
    });
    assert_eq!(found.collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn a_session_belongs_to_one_identity() {
    let server = TestServer::open_for(&settings(16 << 20), team());
    let mut client = server.client().await;
    let session = client.open_session(of("team", v1::OpenSessionRequest {})).await.unwrap();
    let write_id = Some(v1::WriteId { session: session.into_inner().id, sequence: 1 });
    let numbered = || v1::PutRequest { write_id: write_id.clone(), ..put("team/a", "1") };
    let first = client.put(of("team", numbered())).await.unwrap().into_inner();
    assert_eq!(client.put(of("team", numbered())).await.unwrap().into_inner(), first);
    assert_eq!(client.put(of("root", numbered())).await.unwrap_err().code(), Code::Unknown);
}

#[tokio::test]
async fn the_rate_limit_affects_only_its_identity() {
    let scopes = [("busy", Scope::everything()), ("calm", Scope::everything())];
    let server = TestServer::open_for(&settings(16 << 20), access(&scopes, Some(5)));
    let mut client = server.client().await;
    let mut refused = None;
    for _ in 0..100 {
        if let Err(status) = client.put(of("busy", put("k", "v"))).await {
            refused = Some(status);
            break;
        }
    }
    let refused = refused.expect("one of a hundred puts exceeds the rate");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("--max-rate"), "{}", refused.message());
    client.put(of("calm", put("k", "v"))).await.unwrap();
    assert!(server.engine.access().refusals().of(Refused::Rate) >= 1);
}

#[tokio::test]
async fn tickets_require_an_identity_and_tls() {
    let server = TestServer::open_for(&settings(16 << 20), team());
    let plain = server.client().await.ticket(of("root", v1::TicketRequest {})).await.unwrap_err();
    assert_eq!(plain.code(), Code::FailedPrecondition);
    let open = TestServer::open(&settings(16 << 20));
    let anonymous = open.client().await.ticket(v1::TicketRequest {}).await.unwrap_err();
    assert_eq!(anonymous.code(), Code::Unauthenticated);
}
