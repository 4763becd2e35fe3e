//! Classes of errors.

use serde::Serialize;

/// The class of an error: what it is about. It selects the causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The NIC could not access local memory.
    LocalProtection,
    /// The NIC sent a packet again until its limit: the peer's NIC did not acknowledge it.
    RetryExceeded,
    /// A GID that does not work here was chosen.
    WrongGid,
    /// Work that was given up because of an earlier error: of the queue pair, the connection or the communicator.
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
    /// A queue or another object of verbs could not be created or set up.
    Creation,
    /// No device can be used.
    NoDevice,
    /// A fallback is used instead of RDMA.
    Fallback,
    /// A library, component or driver is missing, or does not fit the others.
    NoLibrary,
    /// The peer did not answer in time: when its address was resolved, when a connection over RDMA was set up, or in a collective, which
    /// another rank did not join or complete.
    NoAnswer,
    /// The connection over TCP that ranks find each other by, before RDMA or beside it (bootstrap, rendezvous, key-value store).
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
    /// An error of a GPU, of CUDA, or between GPUs of a host.
    Gpu,
    /// A port went down.
    PortDown,
    /// CPUs change their frequency.
    Frequency,
    /// An error, but none of these.
    Other,
}
