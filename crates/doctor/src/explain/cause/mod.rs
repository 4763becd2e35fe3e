//! Causes of errors, and the doctor's checks for them.

mod machine;
mod memory;
mod network;

use serde::Serialize;

use super::ErrorClass;
use super::errno::Errno;
use super::scan::has_word_start;
use crate::Severity;

/// A cause.
#[derive(Debug)]
pub(super) struct Cause {
    pub(super) text: &'static str,
    pub(super) check: Option<&'static str>,
    pub(super) fix: &'static str,
    /// The mildest severity of the check that indicates this cause.
    pub(super) min_severity: Severity,
    /// Whether it is listed first, whatever is found on this machine.
    pub(super) is_always_first: bool,
    /// Words that prove it, in lower case; `|` separates alternatives.
    proof: &'static str,
    /// Words that point to it.
    hints: &'static str,
    /// The error numbers that it results in; none: any.
    errnos: &'static [u32],
}

/// What the line says about a cause. What it proves comes first, whatever is found on this machine: the line may be from
/// another one, or from another user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineEvidence {
    /// The line names it.
    Proves,
    /// The line's words or error number point to it.
    Fits,
    /// The line leaves it open.
    Open,
    /// It results in another error number.
    Unlikely,
}

impl Cause {
    /// What a line, in lower case, and its error number say about this cause.
    pub(super) fn evidence(&self, lower: &str, errno: Option<Errno>) -> LineEvidence {
        let has = |words: &str| {
            !words.is_empty() && words.split('|').any(|word| has_word_start(lower, word))
        };
        match errno {
            _ if has(self.proof) => LineEvidence::Proves,
            _ if has(self.hints) => LineEvidence::Fits,
            Some(errno) if self.errnos.contains(&errno.number) => LineEvidence::Fits,
            Some(_) if !self.errnos.is_empty() => LineEvidence::Unlikely,
            _ => LineEvidence::Open,
        }
    }

    const fn proven_by(self, proof: &'static str) -> Self {
        Cause { proof, ..self }
    }

    const fn pointed_to_by(self, hints: &'static str) -> Self {
        Cause { hints, ..self }
    }

    const fn with_errno(self, errnos: &'static [u32]) -> Self {
        Cause { errnos, ..self }
    }
}

/// A cause that a warning of the check indicates.
const fn on_warning(check: &'static str, text: &'static str, fix: &'static str) -> Cause {
    Cause { check: Some(check), min_severity: Severity::Warning, ..unchecked(text, fix) }
}

/// A cause that a note of the check indicates, given such an error.
const fn on_note(check: &'static str, text: &'static str, fix: &'static str) -> Cause {
    Cause { min_severity: Severity::Note, ..on_warning(check, text, fix) }
}

const fn always_first(check: &'static str, text: &'static str, fix: &'static str) -> Cause {
    Cause { is_always_first: true, ..on_note(check, text, fix) }
}

const fn unchecked(text: &'static str, fix: &'static str) -> Cause {
    Cause {
        text,
        check: None,
        fix,
        min_severity: Severity::Problem,
        is_always_first: false,
        proof: "",
        hints: "",
        errnos: &[],
    }
}

impl ErrorClass {
    /// Likeliest first.
    pub(super) fn causes(self) -> &'static [Cause] {
        match self {
            ErrorClass::LocalProtection => memory::LOCAL_PROTECTION,
            ErrorClass::RetryExceeded => network::RETRY_EXCEEDED,
            ErrorClass::WrongGid => network::WRONG_GID,
            ErrorClass::Flushed => network::FLUSHED,
            ErrorClass::NotReady => network::NOT_READY,
            ErrorClass::RemoteAccess | ErrorClass::RemoteUse => memory::REMOTE,
            ErrorClass::LocalUse => memory::LOCAL_USE,
            ErrorClass::Registration => memory::REGISTRATION,
            ErrorClass::GpuRegistration => memory::GPU_REGISTRATION,
            ErrorClass::NoGpuDirect => memory::NO_GPUDIRECT,
            ErrorClass::Creation => memory::CREATION,
            ErrorClass::NoDevice => machine::NO_DEVICE,
            ErrorClass::Fallback => machine::FALLBACK,
            ErrorClass::NoLibrary => machine::NO_LIBRARY,
            ErrorClass::NoAnswer => network::NO_ANSWER,
            ErrorClass::OutOfBand => network::OUT_OF_BAND,
            ErrorClass::EfaPeer => network::EFA_PEER,
            ErrorClass::EfaReach => network::EFA_REACH,
            ErrorClass::NicHealth => machine::NIC,
            ErrorClass::Command => machine::COMMAND,
            ErrorClass::DeviceFatal => machine::DEVICE_FATAL,
            ErrorClass::Cable => machine::CABLE,
            ErrorClass::SlotPower => machine::SLOT_POWER,
            ErrorClass::Restricted => machine::RESTRICTED,
            ErrorClass::Pcie | ErrorClass::PcieCorrected => machine::PCIE,
            ErrorClass::IommuFault => machine::IOMMU,
            ErrorClass::Gpu => machine::GPU,
            ErrorClass::PortDown => network::PORT,
            ErrorClass::Frequency => machine::FREQUENCY,
            ErrorClass::Other => &[],
        }
    }
}
