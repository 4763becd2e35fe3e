//! What changes of a port from moment to moment: its state, its rate and its counters.
//!
//! This is the one reader of these files. [`crate::Node`] reads them once and keeps them; [`crate::watch`] reads them as
//! they are now, and only the counters that are wanted.

use crate::counters::{self, Counter, Folder};
use crate::port::{PhysState, PortState};
use crate::tree::Files;
use crate::{Rate, Seen, Tree};

/// A port at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct PortStatus {
    /// From 1.
    pub number: u32,
    /// Whether it carries traffic.
    pub state: Seen<PortState>,
    /// Whether there is a cable with a peer at its other end.
    pub phys_state: Seen<PhysState>,
    /// What it runs at.
    pub rate: Seen<Rate>,
    /// `counters/` first, then the driver's.
    pub counters: Vec<Counter>,
}

impl PortStatus {
    /// Reads the port in `ports`; nothing, where its folder is gone.
    pub(crate) fn read<'t, F: Files<'t>>(
        tree: &'t Tree,
        ports: &str,
        number: u32,
        wanted: &mut dyn FnMut(Folder, &str) -> bool,
    ) -> Option<PortStatus> {
        let path = format!("{ports}/{number}");
        let files = F::open(tree, path.clone())?;
        Some(PortStatus {
            number,
            state: files.text("state").parse(PortState::parse),
            phys_state: files.text("phys_state").parse(PhysState::parse),
            rate: files.text("rate").parse(Rate::parse),
            counters: Folder::OF_PORTS
                .into_iter()
                .flat_map(|folder| counters::read::<F>(tree, &path, folder, wanted))
                .collect(),
        })
    }
}
