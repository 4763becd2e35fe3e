//! A store and its clients in one process, over links as they are.

mod awaited;
mod basics;
mod place;
mod shelf;
