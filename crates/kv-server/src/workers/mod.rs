//! Threads that serve links: `pool` has all of them, `worker` is one, and each link that it serves is a `connection`.

pub(crate) mod connection;
mod context;
mod notify;
pub(crate) mod pool;
mod receive_areas;
mod send_buffers;
mod worker;
