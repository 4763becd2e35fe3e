//! What an error is about.

use serde::Serialize;

/// What an error is about; it decides on the causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The card could not reach memory at this end.
    LocalProtection,
    /// The peer did not answer.
    RetryExceeded,
    /// An address that does not work here was chosen.
    WrongGid,
    /// An earlier error is the matter.
    Flushed,
    /// The peer had no receive posted.
    NotReady,
    /// The peer's memory may not be reached so.
    RemoteAccess,
    /// The peer's card refused.
    RemoteUse,
    /// A work request that does not fit.
    LocalUse,
    /// Memory could not be registered.
    Registration,
    /// GPU memory could not be registered.
    GpuRegistration,
    /// GPU memory is not reached directly.
    NoGpuDirect,
    /// A queue could not be made.
    Creation,
    /// No device can be used.
    NoDevice,
    /// Something else than RDMA is used.
    Fallback,
    /// A library is missing.
    NoLibrary,
    /// The path to the peer's address was not found.
    NoAnswer,
    /// The TCP connection before RDMA.
    OutOfBand,
    /// EFA: the peer is gone.
    EfaPeer,
    /// EFA: the peer was never reached.
    EfaReach,
    /// The card failed.
    CardHealth,
    /// The card is dead until it is reset.
    DeviceFatal,
    /// A cable or transceiver has an error.
    Cable,
    /// The slot gives the card too little power.
    SlotPower,
    /// The card refused a command of its driver.
    Command,
    /// A function that may not tell its counters.
    Restricted,
    /// Errors of a PCIe link.
    Pcie,
    /// Errors of a PCIe link that were corrected.
    PcieCorrected,
    /// The IOMMU stopped an access.
    IommuFault,
    /// A GPU's error.
    Gpu,
    /// A port went down.
    PortDown,
    /// CPUs change their speed.
    Frequency,
    /// None of these.
    Other,
}
