//! Causes of errors, and the doctor's checks for them.

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
    /// The mildest verdict of the check that indicates this cause.
    pub(super) min_verdict: Verdict,
    /// Whether it is listed first, whatever is found on this machine.
    pub(super) is_always_first: bool,
}

/// A cause that a warning of the check indicates.
const fn on_warning(check: &'static str, text: &'static str, fix: &'static str) -> Cause {
    Cause { text, check: Some(check), fix, min_verdict: Verdict::Warning, is_always_first: false }
}

/// A cause that a note of the check indicates, given such an error.
const fn on_note(check: &'static str, text: &'static str, fix: &'static str) -> Cause {
    Cause { min_verdict: Verdict::Note, ..on_warning(check, text, fix) }
}

const fn always_first(check: &'static str, text: &'static str, fix: &'static str) -> Cause {
    Cause { is_always_first: true, ..on_note(check, text, fix) }
}

const fn unchecked(text: &'static str, fix: &'static str) -> Cause {
    Cause { text, check: None, fix, min_verdict: Verdict::Problem, is_always_first: false }
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
            Subject::NicHealth | Subject::Command => machine::NIC,
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
