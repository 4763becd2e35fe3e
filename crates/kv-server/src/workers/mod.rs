//! Threads that serve links: `pool` has all of them, `worker` is one, and each link that it serves is a `connection`.

pub(crate) mod connection;
mod context;
mod notify;
#[cfg(test)]
mod one_thread;
pub(crate) mod pool;
mod receive_areas;
mod send_buffers;
mod worker;
