//! Memory that two processes of one host share: pages of a memfd (`mapping`), the state that each end publishes
//! in them (`control_block`), and the flags by which they sleep and wake (`doorbell`).

pub(crate) mod control_block;
pub(crate) mod doorbell;
pub(crate) mod mapping;
