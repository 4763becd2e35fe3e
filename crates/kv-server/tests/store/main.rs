//! A store and its clients in one process, over links as they are.

mod access;
mod awaited;
mod basics;
mod drained;
mod durable;
mod examples;
mod hostile;
mod killed;
mod lost_connections;
mod place;
mod proof;
mod quota;
mod race;
mod registered_buffer;
mod released;
mod stopped;
