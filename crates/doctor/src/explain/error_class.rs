//! Classes of errors.

use serde::Serialize;

/// The class of an error: what it is about. It selects the causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The NIC could not access local memory.
    LocalProtection,
    /// The peer did not answer.
    RetryExceeded,
    /// A GID that does not work here was chosen.
    WrongGid,
    /// A consequence of an earlier error.
    Flushed,
    /// The peer had no receive posted.
    NotReady,
    /// The peer's memory does not allow the access.
    RemoteAccess,
    /// The peer's NIC refused the request.
    RemoteUse,
    /// An invalid work request.
    LocalUse,
    /// Memory could not be registered.
    Registration,
    /// GPU memory could not be registered.
    GpuRegistration,
    /// GPUDirect is not used.
    NoGpuDirect,
    /// A queue could not be created.
    Creation,
    /// No device can be used.
    NoDevice,
    /// A fallback is used instead of RDMA.
    Fallback,
    /// A library is missing.
    NoLibrary,
    /// The peer's address could not be resolved.
    NoAnswer,
    /// The TCP connection before RDMA.
    OutOfBand,
    /// EFA: the peer no longer answers.
    EfaPeer,
    /// EFA: the peer never answered.
    EfaReach,
    /// The NIC failed.
    NicHealth,
    /// The NIC has failed until it is reset.
    DeviceFatal,
    /// A cable or transceiver has an error.
    Cable,
    /// The slot provides too little power.
    SlotPower,
    /// The NIC refused a command of its driver.
    Command,
    /// A function whose counters may not be read.
    Restricted,
    /// PCIe errors.
    Pcie,
    /// Corrected PCIe errors.
    PcieCorrected,
    /// The IOMMU blocked an access.
    IommuFault,
    /// A GPU error.
    Gpu,
    /// A port went down.
    PortDown,
    /// CPUs change their frequency.
    Frequency,
    /// None of these.
    Other,
}
