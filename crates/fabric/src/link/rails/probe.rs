//! The probe of a new lane: memory of the peer's is written, read back, and compared.

use crate::error::Error;
use crate::grants::random;
use crate::half::Fabric;
use crate::memory::{Memory, Pages};
use crate::op::Work;
use crate::region::{Region, Rights};
use crate::remote::Window;

pub(super) struct Probe {
    /// The peer writes and reads here.
    theirs: Region,
    /// What we write, and behind it where we read it back to.
    ours: Region,
    window: Option<Window>,
    reading: bool,
}

/// What follows when a step of the probe is over.
pub(in crate::link) enum ProbeStep {
    Read(Work),
    Proven,
    /// What was read is not what was written.
    Changed,
}

impl Probe {
    /// May block: memory is registered.
    pub(super) fn new(fabric: &dyn Fabric) -> Result<Self, Error> {
        let open = Rights { read: true, write: true, atomic: false };
        let theirs = fabric.register(&Memory::allocate(PROBE, Pages::Plain)?, open)?;
        let ours = fabric.register(&Memory::allocate(2 * PROBE, Pages::Plain)?, Rights::NONE)?;
        Ok(Probe { theirs, ours, window: None, reading: false })
    }

    /// What the peer probes.
    pub(super) fn theirs(&self) -> &Region {
        &self.theirs
    }

    /// The first step: a write of something that was never there.
    pub(super) fn write(&mut self, window: Window) -> Work {
        let pattern = random().unwrap_or(0).to_le_bytes();
        self.ours.memory().write(0, &pattern.repeat(PROBE / pattern.len()));
        self.window = Some(window.clone());
        Work::Write { from: self.ours.slice(..PROBE).into(), to: window.at(0), imm: None }
    }

    /// A step is over; `None`: none was begun.
    pub(super) fn next(&mut self) -> Option<ProbeStep> {
        let window = self.window.clone()?;
        if !std::mem::replace(&mut self.reading, true) {
            let into = self.ours.slice(PROBE..).into();
            return Some(ProbeStep::Read(Work::Read { into, from: window.at(0) }));
        }
        let same = self.ours.slice(..PROBE).to_vec() == self.ours.slice(PROBE..).to_vec();
        Some(if same { ProbeStep::Proven } else { ProbeStep::Changed })
    }
}

/// How much is written and read to prove a lane: more than one packet.
pub(in crate::link) const PROBE: usize = 16 << 10;
