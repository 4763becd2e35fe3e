//! The store over gRPC, called as any client would.

mod access;
mod attempts;
mod basics;
mod drained;
mod limits;
mod neighbours;
mod place;
mod streams;
