//! Memory that two processes of one host share: pages of a memfd (`mapping`), the state that each end publishes
//! in them (`control_block`), how an access and a revocation see each other (`access`), and the flags by which they sleep and
//! wake (`sleep_flag`).

mod access;
pub(crate) mod control_block;
pub(crate) mod mapping;
pub(crate) mod sleep_flag;
