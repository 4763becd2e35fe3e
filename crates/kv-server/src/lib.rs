//! A key-value store on links: values lie in a registered pool and go from there straight into the
//! memory of clients.
//!
//! It trusts no client: everything that comes in is copied before it is looked at, has a limit, and names
//! memory only by numbers. No memory of the store's can be written by anybody else.
//!
//! Start at [`Engine`], which is the store with its bytes, whatever door requests come in by. [`Crew`] is
//! the fast door: threads that serve links. One link is a guest (`guest`). [`grpc`] is the door for everybody
//! else: HTTP/2 connections, by any gRPC client. Who may do what, by either, is [`access`].

pub mod access;
mod budget;
mod crew;
mod desk;
mod engine;
pub mod grpc;
mod guest;
mod journal;
mod news;
mod outcome;
mod phase;
mod rows;
mod session;
pub mod tls;
mod tools;
mod worker;

pub use budget::Budget;
pub use crew::{Crew, Roster};
pub use engine::{Counts, Durability, Engine, Held, Settings, Staged};
pub use guest::SCRATCH;
pub use journal::JournalCounts;
pub use phase::Phase;
pub use session::{Session, SessionId, Sessions, Turn};
