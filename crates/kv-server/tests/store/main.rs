//! A store and its clients in one process, over links as they are.

mod basics;
mod killed;
mod place;
mod proof;
mod race;
