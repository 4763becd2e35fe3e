//! The store over gRPC, called as any client would.

mod access;
mod basics;
mod drained;
mod limits;
mod one_port;
mod repeated_writes;
mod streams;
mod test_server;
