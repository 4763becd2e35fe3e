//! Threads that serve links: `crew` has them, `worker` is one, a link that it serves is a `guest`.

pub(crate) mod crew;
mod desk;
pub(crate) mod guest;
mod news;
mod tools;
mod worker;
