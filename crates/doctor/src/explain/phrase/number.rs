//! The error number alone: a program of this field reports it, and neither the call nor the object is known.

use super::{Phrase, RDMA, row};
use crate::explain::ErrorClass;
use crate::explain::errno::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTDOWN,
    EHOSTUNREACH, ENETDOWN, ENETUNREACH, ENODEV, ENOMEM, ENOTCONN, ENXIO, EPERM, EPIPE, ETIMEDOUT,
};

pub(super) const TABLE: &[Phrase] = &[
    row(
        &[RDMA],
        ErrorClass::NoAnswer,
        "the peer does not answer",
        "There is no route to the peer's address, or nothing answers there.",
    )
    .only_with(&[ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN]),
    row(
        &[RDMA],
        ErrorClass::OutOfBand,
        "a connection to the peer failed",
        "The peer's process ended, does not listen yet, or listens elsewhere: look at its log first.",
    )
    .only_with(&[
        ECONNREFUSED,
        ECONNRESET,
        ECONNABORTED,
        EPIPE,
        ENOTCONN,
        EADDRINUSE,
        EADDRNOTAVAIL,
    ]),
    row(
        &[RDMA],
        ErrorClass::NoDevice,
        "the device does not exist",
        "The device that the program uses does not exist, or not any more.",
    )
    .only_with(&[ENODEV, ENXIO]),
    row(
        &[RDMA],
        ErrorClass::Restricted,
        "this process lacks a permission",
        "The kernel refuses the file, device or call to this user or container.",
    )
    .only_with(&[EACCES, EPERM]),
    row(
        &[RDMA],
        ErrorClass::Registration,
        "memory could not be allocated or locked",
        "Memory could not be pinned, or the machine or the NIC is out of it.",
    )
    .only_with(&[ENOMEM]),
];
