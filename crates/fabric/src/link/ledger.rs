//! What all lanes of an endpoint have done, by their kind: also those that are gone.

use std::sync::{Arc, Mutex, PoisonError};

use super::control::Class;
use crate::lane::Lane;
use crate::stats::Stats;

/// Counters that only grow, however lanes come and go.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: Mutex<[Account; Class::ALL.len()]>,
}

#[derive(Debug, Default)]
struct Account {
    /// Of lanes that are gone.
    settled: Stats,
    open: Vec<Arc<Stats>>,
}

impl Ledger {
    /// Takes note of a new lane.
    pub(super) fn enter(&self, lane: &dyn Lane) {
        let at = Class::ALL.iter().position(|class| class.name() == lane.caps().lane);
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = at.and_then(|at| accounts.get_mut(at)) {
            account.settle();
            account.open.push(lane.stats().clone());
        }
    }

    /// What lanes of a kind have done.
    pub(super) fn sum(&self, class: Class) -> Stats {
        let sum = Stats::default();
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let at = Class::ALL.iter().position(|known| *known == class);
        if let Some(account) = at.and_then(|at| accounts.get_mut(at)) {
            account.settle();
            sum.absorb(&account.settled);
            account.open.iter().for_each(|open| sum.absorb(open));
        }
        sum
    }
}

impl Account {
    /// Adds up those that nobody else counts on any more.
    fn settle(&mut self) {
        for stats in std::mem::take(&mut self.open) {
            match Arc::try_unwrap(stats) {
                Ok(last) => self.settled.absorb(&last),
                Err(stats) => self.open.push(stats),
            }
        }
    }
}
