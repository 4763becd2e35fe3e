//! Memory that two processes of one host share: pages of a memfd (`mapping`), the state that each end publishes
//! in them (`control_block`), how an access and a revocation see each other (`access`), and the flags by which they sleep and
//! wake (`doorbell`).

mod access;
pub(crate) mod control_block;
pub(crate) mod doorbell;
pub(crate) mod mapping;
