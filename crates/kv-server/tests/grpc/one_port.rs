//! Others at the same port, and services beside the store's.

use std::io::{Read, Write};
use std::time::Duration;

use fabric::link::{Class, Endpoint, Settings};
use kv_proto::v1;
use tokio::task::spawn_blocking;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::test_server::{Place, put, settings};

#[tokio::test]
async fn health_and_reflection_answer() {
    let place = Place::open(&settings(16 << 20));
    let mut health = HealthClient::new(place.channel().await);
    for service in ["", kv_proto::SERVICE] {
        let request = HealthCheckRequest { service: service.to_owned() };
        assert_eq!(health.check(request).await.unwrap().into_inner().status, 1, "{service}");
    }
    let mut reflection = ServerReflectionClient::new(place.channel().await);
    let ask =
        |request| ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let asked = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(kv_proto::SERVICE.to_owned())),
    ];
    let answers = reflection.server_reflection_info(tokio_stream::iter(asked)).await.unwrap();
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
    let place = Place::open(&settings(16 << 20));
    let mut client = place.client().await;
    client.put(put("k", "one")).await.unwrap();
    let address = place.address;
    let dialled = spawn_blocking(move || {
        let links = Settings { classes: vec![Class::Tcp], ..Settings::default() };
        Endpoint::new(links).unwrap().connect(address, Duration::from_secs(20)).map(drop)
    });
    let accepted = loop {
        if let Some(link) = place.listener.accept(Duration::from_millis(1)) {
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
    assert_eq!(place.counts.connections(), 1);
}

#[tokio::test]
async fn what_speaks_no_http2_is_sent_away() {
    let place = Place::open(&settings(16 << 20));
    let address = place.address;
    let heard = spawn_blocking(move || {
        let mut caller = std::net::TcpStream::connect(address).unwrap();
        caller.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut heard = Vec::new();
        // Closed or reset, whichever comes first.
        let _ = caller.read_to_end(&mut heard);
        heard
    });
    assert_eq!(heard.await.unwrap(), b"");
    place.until("it is counted", |_| place.counts.rejected() == 1).await;
    assert_eq!(place.counts.connections(), 0);
}

#[tokio::test]
async fn it_ends_when_told_although_somebody_stays() {
    let place = Place::open(&settings(16 << 20));
    let mut client = place.client().await;
    client.put(put("k", "one")).await.unwrap();
    place.stop().await;
    assert!(client.put(put("k", "two")).await.is_err());
}
