//! gRPC on the port of links.

use kv_proto::v1::kv_client::KvClient;
use kv_proto::v1::{GetRequest, InfoRequest, PutRequest};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::*;

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

pub(crate) async fn channel(server: &Server) -> Channel {
    let address = Endpoint::from_shared(format!("http://{}", server.links)).expect("an address");
    address.connect().await.expect("it connects")
}

pub(crate) async fn client(server: &Server) -> KvClient<Channel> {
    KvClient::new(channel(server).await)
}

pub(crate) fn put(key: &'static str, value: &'static str) -> PutRequest {
    PutRequest { key: key.into(), value: value.into(), ..PutRequest::default() }
}

#[test]
fn calls_and_links_share_one_port() {
    let server = Server::start(&["--memory", "64MiB"]);
    runtime().block_on(async {
        let mut health = HealthClient::new(channel(&server).await);
        let mut client = client(&server).await;
        client.put(put("hello", "world")).await.expect("it is put");
        let mut link = wirelane(&["connect", &server.links, "--seconds", "0.5", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        while link.try_wait().expect("it runs").is_none() {
            let service = kv_proto::SERVICE.to_owned();
            let answer = health.check(HealthCheckRequest { service }).await.expect("an answer");
            assert_eq!(answer.into_inner().status, 1);
            let get = GetRequest { key: "hello".into(), ..GetRequest::default() };
            let got = client.get(get).await.expect("an answer").into_inner();
            assert_eq!(got.value, "world");
        }
        assert!(link.wait().expect("it ends").success());
        let info = client.info(InfoRequest {}).await.expect("an answer").into_inner();
        assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
        let verbs = info.transports.iter().find(|transport| transport.name == "verbs");
        let verbs = verbs.expect("it is told of");
        assert!(!verbs.offered && verbs.reason.contains("/nowhere/libibverbs"), "{verbs:?}");
    });
}

#[test]
fn grpc_is_closed_if_links_need_the_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("cluster.key");
    std::fs::write(&key, "a".repeat(64)).expect("a file");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("a mode");
    let settings = folder.path().join("settings.yaml");
    let text = format!("security: {{rdma: {{key_file: {key:?}, require_authentication: true}}}}\n");
    std::fs::write(&settings, text).expect("a file");
    let server = Server::start(&["--config", settings.to_str().expect("a plain path")]);
    assert!(server.greeting.iter().any(|line| line.contains("no gRPC")));
    runtime().block_on(async {
        let refused = client(&server).await.put(put("a", "b")).await.expect_err("no key is shown");
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert!(refused.message().contains("--allow-anonymous"), "{}", refused.message());
    });
}
