//! gRPC: the code generated from the .proto, and its conversions from and to the checked types.

mod item_error;
mod request_parts;
mod status;

pub use status::VERSION_METADATA;

/// The service's name for health checks and reflection.
pub const SERVICE: &str = v1::kv_server::SERVICE_NAME;

/// The encoded `google.protobuf.FileDescriptorSet` of the .proto, with its comments, for gRPC's
/// reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include!("../generated/descriptors.rs");

/// Messages, client and server of `wirelane.kv.v1`, generated from the .proto by `cargo xtask proto`.
#[allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    reason = "generated; the .proto does not comment every field, and tonic allows lints itself"
)]
pub mod v1 {
    include!("../generated/wirelane.kv.v1.rs");
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message;

    use super::v1::{
        GetReply, KeyMetadata, ListReply, Metadata, PutOptions, PutRequest, WriteId, put_options,
    };
    use crate::limits::{MAX_KEY_BYTES, MAX_LIST_KEYS, MAX_MESSAGE_BYTES, MAX_UNARY_BYTES};

    fn metadata() -> Metadata {
        Metadata { length: u64::MAX, version: u64::MAX, expires_in_ms: Some(u64::MAX) }
    }

    #[test]
    fn the_largest_put_and_get_fit_in_a_message() {
        let value = Bytes::from(vec![0; MAX_UNARY_BYTES]);
        let condition = Some(put_options::Condition::IfVersion(u64::MAX));
        let put = PutRequest {
            key: vec![0; MAX_KEY_BYTES].into(),
            value: value.clone(),
            options: Some(PutOptions { ttl_ms: Some(u64::MAX), condition }),
            write_id: Some(WriteId { session: vec![0; 16].into(), sequence: u64::MAX }),
        };
        assert!(put.encoded_len() <= MAX_MESSAGE_BYTES);
        let get =
            GetReply { found: true, value, metadata: Some(metadata()), crc32c: Some(u32::MAX) };
        assert!(get.encoded_len() <= MAX_MESSAGE_BYTES);
    }

    #[test]
    fn the_longest_list_fits_in_a_message() {
        let key = KeyMetadata { key: vec![0; MAX_KEY_BYTES].into(), metadata: Some(metadata()) };
        let list = ListReply { keys: vec![key; MAX_LIST_KEYS], next_cursor: u64::MAX };
        assert!(list.encoded_len() <= MAX_MESSAGE_BYTES);
    }
}
