//! Options of storing values.

use clap::Args;
use kv_client::{Condition, PutOptions};

use super::expiry::Ttl;

#[derive(Debug, Args)]
pub(super) struct PutOptionArgs {
    /// Time to live: 500ms, 30s, 10m, 1h (default: no expiry)
    #[arg(long, value_name = "TIME")]
    ttl: Option<Ttl>,

    /// Store only if the key does not exist
    #[arg(long, conflicts_with = "if_version")]
    if_absent: bool,

    /// Store only if the key has this version
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    if_version: Option<u64>,
}

impl PutOptionArgs {
    pub(super) fn options(&self) -> PutOptions {
        let condition = match (self.if_absent, self.if_version) {
            (true, _) => Condition::IfAbsent,
            (false, Some(version)) => Condition::IfVersion(version),
            (false, None) => Condition::Always,
        };
        PutOptions::default().with_ttl(self.ttl.map(|ttl| ttl.0)).with_condition(condition)
    }
}
