//! A store and its clients in one process, over real links.

mod access;
mod async_client;
mod basics;
mod drained;
mod durable;
mod examples;
mod hostile;
mod killed;
mod lost_connections;
mod quota;
mod race;
mod registered_buffer;
mod released;
mod stamped_values;
mod stopped;
mod test_server;
