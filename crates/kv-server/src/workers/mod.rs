//! Threads that serve links: `pool` has them, `worker` is one, a link that it serves is a `connection`.

pub(crate) mod connection;
mod context;
mod notify;
pub(crate) mod pool;
mod receive_areas;
mod send_buffers;
mod worker;
