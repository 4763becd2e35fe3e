//! What clients in other languages are told about the service.

use std::collections::BTreeSet;

use kv_proto::{FILE_DESCRIPTOR_SET, SERVICE};
use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

fn file() -> FileDescriptorProto {
    let mut set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("a set of files");
    assert_eq!(set.file.len(), 1, "it needs no other file");
    set.file.remove(0)
}

#[test]
fn the_set_names_the_service_and_its_calls() {
    let file = file();
    let service = file.service.first().expect("a service");
    assert_eq!(format!("{}.{}", file.package(), service.name()), SERVICE);
    let calls: BTreeSet<&str> = service.method.iter().map(|call| call.name()).collect();
    let promised = [
        "Delete",
        "Get",
        "Info",
        "List",
        "MultiGet",
        "MultiPut",
        "OpenSession",
        "Put",
        "Read",
        "Stat",
        "Ticket",
        "Write",
    ];
    assert_eq!(calls, promised.into());
}

#[test]
fn what_is_absent_differs_from_zero() {
    for (message, field) in [
        ("GetRequest", "length"),
        ("GetReply", "crc32c"),
        ("Metadata", "expires_in_ms"),
        ("PutOptions", "ttl_ms"),
        ("DeleteRequest", "if_version"),
    ] {
        let file = file();
        let message = file.message_type.iter().find(|known| known.name() == message).unwrap();
        let field = message.field.iter().find(|known| known.name() == field).unwrap();
        assert!(field.proto3_optional(), "{} of {}", field.name(), message.name());
    }
}

#[test]
fn the_comments_come_along() {
    let info = file().source_code_info.expect("comments");
    let said = |text| info.location.iter().any(|place| place.leading_comments().contains(text));
    assert!(said("Deletes a key."));
}

#[test]
fn reflection_takes_the_set() {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET);
    assert!(reflection.build_v1().is_ok());
}
