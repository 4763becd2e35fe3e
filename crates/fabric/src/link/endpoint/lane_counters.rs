//! What all lanes of an endpoint have done, by their kind: also those that are gone.

use std::sync::{Arc, Mutex, PoisonError};

use crate::lane::Lane;
use crate::link::protocol::control::Class;
use crate::stats::Stats;

/// Counters that only grow, however lanes come and go.
#[derive(Debug, Default)]
pub(in crate::link) struct Ledger {
    /// For each kind what no device moved, and what one did.
    accounts: Mutex<[[Account; 2]; Class::ALL.len()]>,
}

#[derive(Debug, Default)]
struct Account {
    /// Of lanes that are gone.
    settled: Stats,
    open: Vec<Arc<Stats>>,
}

impl Ledger {
    /// Takes note of a new lane.
    pub(in crate::link) fn enter(&self, lane: &dyn Lane) {
        let caps = lane.caps();
        let at = Class::ALL.iter().position(|class| class.name() == caps.lane);
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = at.and_then(|at| accounts.get_mut(at)) {
            let account = &mut kind[usize::from(caps.rdma)];
            account.settle();
            account.open.push(lane.stats().clone());
        }
    }

    /// What lanes of a kind have done.
    pub(in crate::link) fn sum(&self, class: Class) -> Stats {
        self.sum_of(|kind, _| kind == class)
    }

    /// What lanes by devices have done, of whatever kind.
    pub(in crate::link) fn rdma(&self) -> Stats {
        self.sum_of(|_, rdma| rdma)
    }

    fn sum_of(&self, counts: impl Fn(Class, bool) -> bool) -> Stats {
        let sum = Stats::default();
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        for (class, kind) in Class::ALL.into_iter().zip(accounts.iter_mut()) {
            for (rdma, account) in [false, true].into_iter().zip(kind) {
                if counts(class, rdma) {
                    account.settle();
                    sum.absorb(&account.settled);
                    account.open.iter().for_each(|open| sum.absorb(open));
                }
            }
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
