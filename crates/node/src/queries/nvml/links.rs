//! A GPU's NVLinks.

use std::collections::BTreeMap;

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS, NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS,
    NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS,
    NVML_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS,
    NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS, NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES,
    NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS, NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS,
    NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, NVML_FI_DEV_NVLINK_COUNT_XMIT_DISCARDS,
    NVML_FI_DEV_NVLINK_ERROR_DL_CRC, NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
    NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
};

use super::raw;
use crate::queries::NvLink;

/// All NVLinks of the GPU, up or not.
pub(super) fn read(device: &Device<'_>) -> BTreeMap<u32, NvLink> {
    let state = |link| Some((link, device.link_wrapper_for(link).is_active().ok()?));
    (0..MAX_LINKS).map_while(state).map(|(link, up)| (link, read_one(device, link, up))).collect()
}

/// The fields differ before Hopper and since Blackwell.
fn read_one(device: &Device<'_>, link: u32, active: bool) -> NvLink {
    let [received, sent] = raw::fields(device, link, KIBIBYTES);
    let mut one = NvLink {
        active: Some(active),
        receive_bytes: received.map(|kibibytes| kibibytes.saturating_mul(1024)),
        transmit_bytes: sent.map(|kibibytes| kibibytes.saturating_mul(1024)),
        errors: errors(device, link, ERRORS),
    };
    if one.receive_bytes.is_none() && one.transmit_bytes.is_none() {
        [one.receive_bytes, one.transmit_bytes] = raw::fields(device, link, BYTES);
    }
    if one.errors.is_empty() {
        one.errors = errors(device, link, NEW_ERRORS);
    }
    if one.errors.is_empty() {
        one.errors = old_errors(device, link);
    }
    one
}

fn errors<const N: usize>(
    device: &Device<'_>,
    link: u32,
    kinds: [(&str, u32); N],
) -> BTreeMap<String, u64> {
    let counts = raw::fields(device, link, kinds.map(|(_, field)| field));
    let pairs = kinds.into_iter().zip(counts);
    pairs.filter_map(|((kind, _), count)| Some((kind.to_owned(), count?))).collect()
}

fn old_errors(device: &Device<'_>, link: u32) -> BTreeMap<String, u64> {
    let kinds = [
        ("replay", ErrorCounter::DlReplay),
        ("recovery", ErrorCounter::DlRecovery),
        ("crc_flit", ErrorCounter::DlCrcFlit),
        ("crc_data", ErrorCounter::DlCrcData),
    ];
    let link = device.link_wrapper_for(link);
    let count =
        |(kind, counter): (&str, _)| Some((kind.to_owned(), link.error_counter(counter).ok()?));
    kinds.into_iter().filter_map(count).collect()
}

/// Data received and sent, without protocol overhead.
const KIBIBYTES: [u32; 2] =
    [NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX];

const BYTES: [u32; 2] = [NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES, NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES];

const ERRORS: [(&str, u32); 3] = [
    ("replay", NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY),
    ("recovery", NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY),
    ("crc", NVML_FI_DEV_NVLINK_ERROR_DL_CRC),
];

const NEW_ERRORS: [(&str, u32); 8] = [
    ("malformed_packet", NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS),
    ("buffer_overrun", NVML_FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS),
    ("receive", NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS),
    ("local_link_integrity", NVML_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS),
    ("transmit_discard", NVML_FI_DEV_NVLINK_COUNT_XMIT_DISCARDS),
    ("recovery_failed", NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS),
    ("effective", NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS),
    ("symbol", NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS),
];

const MAX_LINKS: u32 = 64;
