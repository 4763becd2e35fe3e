//! Changes to a machine: planned, shown as a diff, made, written down in one journal, and reverted.
//!
//! This is the only crate that changes a machine. It decides nothing about what a setting should be (that is
//! `doctor::limits`), asks nobody, prints nothing, and changes nothing that it could not revert.
//!
//! A [`Target`] is a thing on a machine that can be read, set and set back; a [`State`] is what it was or shall
//! be; a [`Change`] is both. A [`Plan`] is changes with their reasons, and advice for what is better done by a
//! person. [`apply()`] reads every old state first, writes it to the [`Journal`] before each change, and reverts
//! everything if one fails: nothing stays half made. [`revert()`] does the same later, also after a crash
//! in the middle, and leaves alone what somebody else has changed since.
//!
//! Every command that changes a machine goes through here, so that one journal has all changes. Changes are made
//! on a [`Machine`]: the running one, or a folder that looks like one.
//!
//! Start at [`Plan`]; [`tune`], [`setup`], [`install`] and [`nfs`] make plans.

mod apply;
mod diff;
mod error;
mod ethtool;
mod export;
pub mod install;
mod journal;
mod line;
mod machine;
mod mount;
mod netdev;
pub mod nfs;
mod nfsd;
mod packages;
mod path;
mod plan;
mod program;
mod read_request;
mod reader;
mod record;
mod revert;
pub mod setup;
mod state;
mod target;
pub mod tune;

pub use apply::{Applied, apply};
pub use diff::{before_and_after, diff};
pub use error::Error;
pub use journal::Journal;
pub use machine::Machine;
pub use packages::Packager;
pub use plan::{Advice, Outlook, Plan, Step};
pub use reader::Look;
pub use record::{Entry, History, Planned, Standing};
pub use revert::{Manner, Outcome, Pick, RevertOutcome, revert};
pub use state::{Content, State};
pub use target::{Change, Target};
