//! Tests of TCP lanes that look inside.

mod encryption;
mod failures;
mod misbehaving_peers;
mod shared_listener;
