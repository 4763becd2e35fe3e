//! What causes errors, and which of the doctor's checks looks for it.

mod machine;
mod memory;
mod network;

use super::Subject;
use crate::Verdict;

/// A cause.
#[derive(Debug)]
pub(super) struct Cause {
    pub(super) text: &'static str,
    pub(super) check: Option<&'static str>,
    pub(super) fix: &'static str,
    /// From which verdict on the check's finding speaks for it.
    pub(super) from: Verdict,
    /// It stands first whatever is found on this machine.
    pub(super) first: bool,
}

/// A fault that the check finds.
const fn seen_by(check: &'static str, text: &'static str, fix: &'static str) -> Cause {
    Cause { text, check: Some(check), fix, from: Verdict::Warning, first: false }
}

/// Something that is a fault only beside such an error.
const fn hinted_by(check: &'static str, text: &'static str, fix: &'static str) -> Cause {
    Cause { from: Verdict::Note, ..seen_by(check, text, fix) }
}

const fn first(check: &'static str, text: &'static str, fix: &'static str) -> Cause {
    Cause { first: true, ..hinted_by(check, text, fix) }
}

const fn told(text: &'static str, fix: &'static str) -> Cause {
    Cause { text, check: None, fix, from: Verdict::Problem, first: false }
}

impl Subject {
    /// Likeliest first.
    pub(super) fn causes(self) -> &'static [Cause] {
        match self {
            Subject::LocalProtection => memory::LOCAL_PROTECTION,
            Subject::RetryExceeded => network::RETRY_EXCEEDED,
            Subject::WrongGid => network::WRONG_GID,
            Subject::Flushed => network::FLUSHED,
            Subject::NotReady => network::NOT_READY,
            Subject::RemoteAccess | Subject::RemoteUse => memory::REMOTE,
            Subject::LocalUse => memory::LOCAL_USE,
            Subject::Registration => memory::REGISTRATION,
            Subject::GpuRegistration | Subject::NoGpuDirect => memory::GPU_MEMORY,
            Subject::Creation => memory::CREATION,
            Subject::NoDevice | Subject::Fallback => machine::NO_DEVICE,
            Subject::NoLibrary => machine::NO_LIBRARY,
            Subject::NoAnswer => network::NO_ANSWER,
            Subject::OutOfBand => network::OUT_OF_BAND,
            Subject::EfaPeer => network::EFA_PEER,
            Subject::EfaReach => network::EFA_REACH,
            Subject::CardHealth | Subject::Command => machine::CARD,
            Subject::DeviceFatal => machine::DEVICE_FATAL,
            Subject::Cable => machine::CABLE,
            Subject::SlotPower => machine::SLOT_POWER,
            Subject::Restricted => machine::RESTRICTED,
            Subject::Pcie | Subject::PcieCorrected => machine::PCIE,
            Subject::IommuFault => machine::IOMMU,
            Subject::Gpu => machine::GPU,
            Subject::PortDown => network::PORT,
            Subject::Frequency => machine::FREQUENCY,
            Subject::Other => &[],
        }
    }
}
