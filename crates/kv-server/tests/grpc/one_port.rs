//! Other protocols and services on the same port.

use std::io::{Read, Write};
use std::time::Duration;

use fabric::link::{Endpoint, EndpointSettings, Transport};
use kv_proto::v1;
use tokio::task::spawn_blocking;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::test_server::{TestServer, put, settings};

#[tokio::test]
async fn health_and_reflection_answer() {
    let server = TestServer::open(&settings(16 << 20));
    let mut health = HealthClient::new(server.channel().await);
    for service in ["", kv_proto::SERVICE] {
        let request = HealthCheckRequest { service: service.to_owned() };
        assert_eq!(health.check(request).await.unwrap().into_inner().status, 1, "{service}");
    }
    let mut reflection = ServerReflectionClient::new(server.channel().await);
    let request =
        |request| ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let requests = [
        request(MessageRequest::ListServices(String::new())),
        request(MessageRequest::FileContainingSymbol(kv_proto::SERVICE.to_owned())),
    ];
    let answers = reflection.server_reflection_info(tokio_stream::iter(requests)).await.unwrap();
    let mut answers = answers.into_inner();
    let first = answers.message().await.unwrap().unwrap().message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = first else { panic!("{first:?}") };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    assert!(names.contains(&kv_proto::SERVICE) && names.contains(&"grpc.health.v1.Health"));
    let second = answers.message().await.unwrap().unwrap().message_response;
    assert!(matches!(second, Some(MessageResponse::FileDescriptorResponse(_))), "{second:?}");
}

#[tokio::test]
async fn a_link_and_calls_use_one_port() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    client.put(put("k", "one")).await.unwrap();
    let address = server.address;
    let dialled = spawn_blocking(move || {
        let links =
            EndpointSettings { transports: vec![Transport::Tcp], ..EndpointSettings::default() };
        Endpoint::new(links).unwrap().connect(address, Duration::from_secs(20)).map(drop)
    });
    let accepted = loop {
        if let Some(link) = server.listener.accept(Duration::from_millis(1)) {
            break link;
        }
        client.info(v1::InfoRequest {}).await.unwrap();
    };
    let mut link = accepted.unwrap();
    while !dialled.is_finished() {
        fabric::Lane::poll(&mut link, &mut Vec::new());
        client.info(v1::InfoRequest {}).await.unwrap();
    }
    dialled.await.unwrap().unwrap();
    assert_eq!(server.counts.connections(), 1);
}

#[tokio::test]
async fn other_protocols_are_rejected() {
    let server = TestServer::open(&settings(16 << 20));
    let address = server.address;
    let received = spawn_blocking(move || {
        let mut caller = std::net::TcpStream::connect(address).unwrap();
        caller.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut received = Vec::new();
        // Closed or reset, whichever comes first.
        let _ = caller.read_to_end(&mut received);
        received
    });
    assert_eq!(received.await.unwrap(), b"");
    server.until("it is counted", |_| server.counts.refused() == 1).await;
    assert_eq!(server.counts.connections(), 0);
}

#[tokio::test]
async fn the_server_stops_although_a_client_is_connected() {
    let server = TestServer::open(&settings(16 << 20));
    let mut client = server.client().await;
    client.put(put("k", "one")).await.unwrap();
    server.stop().await;
    assert!(client.put(put("k", "two")).await.is_err());
}
