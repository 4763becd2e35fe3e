//! State, rate and counters of a port.
//!
//! This is the only reader of these files. [`crate::Node`] reads them once, with the cache; [`crate::sampling`] reads them
//! each time, and only selected counters.

use crate::counters::{self, Counter, CounterSource};
use crate::port::{PhysState, PortState};
use crate::tree::Files;
use crate::{Rate, Reading, Tree};

/// A sample of a port.
#[derive(Debug, Clone, PartialEq)]
pub struct PortStatus {
    /// From 1.
    pub number: u32,
    /// The logical state.
    pub state: Reading<PortState>,
    /// The physical state.
    pub phys_state: Reading<PhysState>,
    /// The current rate.
    pub rate: Reading<Rate>,
    /// `counters/` first, then the driver's.
    pub counters: Vec<Counter>,
}

impl PortStatus {
    /// Reads the port in `ports`; `None` if its folder does not exist.
    pub(crate) fn read<'t, F: Files<'t>>(
        tree: &'t Tree,
        ports: &str,
        number: u32,
        wanted: &mut dyn FnMut(CounterSource, &str) -> bool,
    ) -> Option<PortStatus> {
        let path = format!("{ports}/{number}");
        let files = F::open(tree, path.clone())?;
        Some(PortStatus {
            number,
            state: files.text("state").parse(PortState::parse),
            phys_state: files.text("phys_state").parse(PhysState::parse),
            rate: files.text("rate").parse(Rate::parse),
            counters: CounterSource::OF_PORTS
                .into_iter()
                .flat_map(|source| counters::read::<F>(tree, &path, source, wanted))
                .collect(),
        })
    }
}
