//! Error numbers of libfabric's EFA provider (`prov_errno`): up to 15 from the device, from 4096 on from the provider.

use super::ErrorClass;
use super::scan::{has_word, has_word_start, number, number_after};

pub(super) fn read(lower: &str) -> Option<(String, Vec<String>, ErrorClass)> {
    let number = ["prov_errno", "efa internal error"]
        .iter()
        .find_map(|word| number_after(lower, word))
        .map(|number| number.value)
        .or_else(|| at_the_end(lower));
    let row = match number {
        Some(number) => TABLE.iter().find(|row| row.0 == number)?,
        // Common words count only if the line is about EFA.
        None if !is_named(lower) => return None,
        None => TABLE.iter().rev().find(|row| lower.contains(&row.1.to_lowercase()))?,
    };
    let (number, words, class, meaning) = *row;
    Some((format!("EFA {number}: {words}"), vec![meaning.to_owned()], class))
}

fn is_named(lower: &str) -> bool {
    has_word(lower, "efa")
        || has_word_start(lower, "fi_")
        || ["libfabric", "net/ofi"].iter().any(|word| lower.contains(word))
}

/// `efa_rdm_txe_handle_error … message: Invalid address … (7)`.
fn at_the_end(lower: &str) -> Option<u32> {
    // Other parts of the provider end their lines with error numbers of Linux.
    if !lower.contains(":efa:cq:") {
        return None;
    }
    let (_, last) = lower.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    number(last).map(|number| number.value)
}

type Row = (u32, &'static str, ErrorClass, &'static str);

const TABLE: &[Row] = &[
    (1, "flushed", ErrorClass::Flushed, "The queue pair was closed with work requests in it."),
    (
        2,
        "internal error of the queue pair",
        ErrorClass::NicHealth,
        "The device failed the queue pair.",
    ),
    (
        3,
        "unsupported operation",
        ErrorClass::LocalUse,
        "This device does not support the operation; older instances have no RDMA write, or no read.",
    ),
    (
        4,
        "invalid address handle",
        ErrorClass::EfaPeer,
        "The address handle of the peer is not valid on this device: it was created on another \
         device, or destroyed.",
    ),
    (
        5,
        "invalid local key",
        ErrorClass::LocalProtection,
        "Local memory is not registered, or only in part.",
    ),
    (
        6,
        "message too long",
        ErrorClass::LocalUse,
        "The message is longer than the device supports.",
    ),
    (
        7,
        "remote key not registered",
        ErrorClass::RemoteAccess,
        "The peer's memory is not registered, or only in part.",
    ),
    (
        8,
        "connection reset by the peer",
        ErrorClass::EfaPeer,
        "The peer closed the connection, or its process ended.",
    ),
    (
        9,
        "bad queue pair number",
        ErrorClass::EfaPeer,
        "The peer's queue pair does not exist: its process ended or was restarted.",
    ),
    (10, "receiver not ready", ErrorClass::NotReady, "The peer has no receive posted."),
    (
        11,
        "remote list too short",
        ErrorClass::RemoteUse,
        "The peer's receive is shorter than the message.",
    ),
    (
        12,
        "bad status from the peer",
        ErrorClass::RemoteUse,
        "The peer's device answered with something unexpected.",
    ),
    (
        13,
        "unresponsive receiver",
        ErrorClass::EfaPeer,
        "The peer answered before, but does not answer now.",
    ),
    (14, "no handle at the peer", ErrorClass::EfaPeer, "The peer does not know the local address."),
    (15, "unreachable peer", ErrorClass::EfaReach, "The peer never answered."),
    (4105, "out of memory", ErrorClass::Registration, "Memory could not be allocated or locked."),
    (
        4113,
        "handshake could not be sent",
        ErrorClass::EfaPeer,
        "The first message to the peer could not be sent.",
    ),
    (
        4124,
        "unresponsive receiver",
        ErrorClass::EfaPeer,
        "The peer answered before, but does not answer now.",
    ),
    (
        4126,
        "unresponsive receiver, no handshake",
        ErrorClass::EfaPeer,
        "The peer's device answers, but its process does not.",
    ),
    (
        18,
        "the peer lacks a feature",
        ErrorClass::RemoteUse,
        "The peer's device or version does not support the operation.",
    ),
    (
        4100,
        "a packet could not be posted",
        ErrorClass::LocalUse,
        "A send was refused by the device.",
    ),
    (4101, "a packet could not be sent", ErrorClass::EfaPeer, "A packet to the peer failed."),
    (
        4110,
        "an address could not be inserted",
        ErrorClass::EfaPeer,
        "The peer's address is invalid, or a limit of the device is reached.",
    ),
    (
        4111,
        "the peer refused the address",
        ErrorClass::RemoteAccess,
        "The peer's memory is not registered, or only in part, or without the right.",
    ),
    (
        4112,
        "receives could not be posted",
        ErrorClass::LocalUse,
        "A receive was refused by the device.",
    ),
    (4114, "a send could not be posted", ErrorClass::LocalUse, "A send was refused by the device."),
    (4116, "a read could not be posted", ErrorClass::LocalUse, "A read was refused by the device."),
    (4117, "a read could not be posted", ErrorClass::LocalUse, "A read was refused by the device."),
    (
        4122,
        "an error of shared memory",
        ErrorClass::Other,
        "The provider uses shared memory for processes of the same host; that failed.",
    ),
    (
        4127,
        "the peer aborted",
        ErrorClass::EfaPeer,
        "The peer closed its endpoint or its memory while a transfer was in flight.",
    ),
];
