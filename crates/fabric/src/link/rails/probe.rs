//! The probe of a new lane: writes the peer's memory, reads it back, and compares.

use crate::error::Error;
use crate::grants::random;
use crate::memory::{Memory, Pages};
use crate::op::Work;
use crate::region::{Region, Rights};
use crate::remote::Window;
use crate::setup::Fabric;

pub(super) struct Probe {
    /// Written and read by the peer.
    theirs: Region,
    /// The bytes to write, followed by the buffer to read them back into.
    ours: Region,
    window: Option<Window>,
    reading: bool,
}

/// The next step of the probe.
pub(in crate::link) enum ProbeStep {
    Read(Work),
    Verified,
    /// The bytes read differ from those written.
    Mismatch,
}

impl Probe {
    /// May block: memory is registered.
    pub(super) fn new(fabric: &dyn Fabric) -> Result<Self, Error> {
        let open = Rights { read: true, write: true, atomic: false };
        let theirs = fabric.register(&Memory::allocate(PROBE_BYTES, Pages::Plain)?, open)?;
        let ours =
            fabric.register(&Memory::allocate(2 * PROBE_BYTES, Pages::Plain)?, Rights::NONE)?;
        Ok(Probe { theirs, ours, window: None, reading: false })
    }

    /// The region that the peer probes.
    pub(super) fn theirs(&self) -> &Region {
        &self.theirs
    }

    /// The first step: a write of random bytes.
    pub(super) fn write(&mut self, window: Window) -> Work {
        let pattern = random().unwrap_or(0).to_le_bytes();
        self.ours.memory().write(0, &pattern.repeat(PROBE_BYTES / pattern.len()));
        self.window = Some(window.clone());
        Work::Write { from: self.ours.slice(..PROBE_BYTES).into(), to: window.at(0), imm: None }
    }

    /// A step has completed; `None`: none was started.
    pub(super) fn next(&mut self) -> Option<ProbeStep> {
        let window = self.window.clone()?;
        if !std::mem::replace(&mut self.reading, true) {
            let into = self.ours.slice(PROBE_BYTES..).into();
            return Some(ProbeStep::Read(Work::Read { into, from: window.at(0) }));
        }
        let same =
            self.ours.slice(..PROBE_BYTES).to_vec() == self.ours.slice(PROBE_BYTES..).to_vec();
        Some(if same { ProbeStep::Verified } else { ProbeStep::Mismatch })
    }
}

/// The number of bytes written and read: more than one packet.
pub(in crate::link) const PROBE_BYTES: usize = 16 << 10;
