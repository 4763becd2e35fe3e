//! Changes to a machine: planned, displayed as a diff, applied, recorded in one journal, and reverted.
//!
//! This is the only crate that changes a machine; the exception is `install apply --start`, by which the program starts
//! systemd's units, without an entry in the journal. It does not decide what a setting should be (that is
//! `doctor::expected`), does not prompt or print, and changes nothing that it could not revert.
//!
//! A [`Target`] is a thing on a machine that can be read, set and restored; a [`State`] is its old or wanted
//! state; a [`Change`] is a target and its wanted state. A [`Plan`] is changes with their reasons, and advice for what an
//! administrator should do. [`apply()`] reads every old state first, writes it to the [`Journal`] before each change, and reverts
//! everything if one fails: a plan is never applied in part. [`revert()`] reverts later, also after a crash
//! during `apply()`, and skips what was changed again since.
//!
//! All other commands that change a machine use this crate, so that one journal has their changes. Changes are applied
//! to a [`Machine`]: the running one, or a folder with the same file tree.
//!
//! Start at [`Plan`]; [`tune`], [`setup`], [`install`] and [`nfs`] build plans.

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

pub use apply::{ApplyOutcome, apply};
pub use diff::{before_and_after, diff};
pub use error::Error;
pub use journal::Journal;
pub use machine::Machine;
pub use packages::PackageManager;
pub use plan::{Advice, Plan, Step, StepStatus};
pub use reader::Reader;
pub use record::{ChangeStatus, Entry, History, PlannedChange};
pub use revert::{RevertMode, RevertOutcome, RevertReport, Selection, revert};
pub use state::{Content, State};
pub use target::{Change, Target};
