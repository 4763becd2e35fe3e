//! Lines of libfabric and of programs that use it. Numbers of its EFA provider are in `efa.rs`.

use super::{FAILED, Phrase, row};
use crate::explain::ErrorClass;
use crate::explain::errno::{EINVAL, ENODATA, ENODEV, ENOSYS};

const OFI: &str = "libfabric|net/ofi|ofi|fi_|efa|mtl_ofi|psm2|cxi|opx";

pub(super) const TABLE: &[Phrase] = &[
    row(
        &["libfabric", "remote memory access error"],
        ErrorClass::RemoteAccess,
        "the peer's memory does not allow the access",
        "The key, the address or the access right of a remote operation is not valid at the peer.",
    ),
    row(
        &["provider", "output empty list"],
        ErrorClass::NoDevice,
        "a libfabric provider found no device",
        "There is no device for this provider, or none with the requested capabilities.",
    ),
    row(
        &["fi_getinfo|ofi_getinfo|getinfo|addrinfo"],
        ErrorClass::NoDevice,
        "libfabric found no provider",
        "No provider has a device with the requested capabilities: there is no device, it may not be \
         opened, or FI_PROVIDER excludes it.",
    )
    .only_with(&[ENODATA, ENODEV, ENOSYS]),
    row(
        &["fi_getinfo|fi_info", FAILED],
        ErrorClass::NoDevice,
        "libfabric found no provider",
        "No provider has a device with the requested capabilities.",
    ),
    row(
        &[OFI, "no provider|no providers|optimal provider|no eligible|no valid provider|\
             could not find any|no supported provider|unsupported provider|\
             provider not found|no efa|no usable|suitable provider|network providers|as provider|\
             provider is supported|init provider"],
        ErrorClass::NoDevice,
        "libfabric found no provider that can be used",
        "There is no device, it may not be opened from this process, or settings (FI_PROVIDER) \
         exclude it.",
    ),
    row(
        &["efa", "no device|no devices|not found|device not|no efa"],
        ErrorClass::NoDevice,
        "no EFA device can be used",
        "The instance type has no EFA, no EFA interface is attached, or it is not passed to the \
         container.",
    ),
    row(
        &["nic unit", "can't open|cannot open|fail|unable"],
        ErrorClass::NoDevice,
        "libfabric's PSM3 provider cannot use the device",
        "It chose a device that it cannot open: mostly another provider should be used (FI_PROVIDER, \
         `--mca mtl ^ofi`).",
    ),
    row(
        &["psm2|psm3|hfi|opa ", "no hfi units|no units|no hfi|not available|no opa|no psm2|no psm3"],
        ErrorClass::NoDevice,
        "no Omni-Path device can be used",
        "The hfi1 driver has no active unit, or its device node may not be opened.",
    ),
    row(
        &["fi_hmem|hmem|cuda_hmem|gdr disabled|gdr support|gdr flush", "not supported|requires|disabled|\
             unsupported|does not support|unable|\
             not available|fail"],
        ErrorClass::NoGpuDirect,
        "libfabric does not use GPUDirect",
        "The device or this build of libfabric cannot access GPU memory; it is copied through host \
         memory first.",
    )
    .unless("<info>|<debug>"),
    row(
        &[OFI, "never established|never received a response|unreachable remote|unreachable peer"],
        ErrorClass::EfaReach,
        "the peer never answered",
        "No answer came since the first packet.",
    ),
    row(
        &["unresponsive receiver|unresponsive remote"],
        ErrorClass::EfaPeer,
        "the peer does not answer",
        "The peer's process ended, or the path to it is down.",
    ),
    row(
        &["efa", "no valid address handle|unknown peer|connection aborted|\
             invalid receiver queue pair"],
        ErrorClass::EfaPeer,
        "the peer does not know this process",
        "The peer's process ended or was restarted, and its queue pair with it.",
    ),
    row(
        &["rma address verification|remote memory registration is invalid"],
        ErrorClass::RemoteAccess,
        "the peer's memory does not allow the access",
        "The peer's memory is not registered, or only in part, or without the right.",
    ),
    row(
        &["local memory registration is invalid"],
        ErrorClass::LocalProtection,
        "local memory does not allow the access",
        "Local memory is not registered, or only in part.",
    ),
    row(
        &["destination resource not ready"],
        ErrorClass::NotReady,
        "the peer has no receive posted",
        "The peer's program does not post receives in time.",
    ),
    row(
        &["unresponsive remote|connection was reset by remote peer|bad queue pair (qp) number"],
        ErrorClass::EfaPeer,
        "the peer does not answer",
        "The peer's process ended, or the path to it is down.",
    ),
    row(
        &["efa", "internal error|internal queue pair error"],
        ErrorClass::Other,
        "libfabric's EFA provider stops after an error",
        "The line after it has the number of the error.",
    ),
    row(
        &[
            "prov/efa|:efa:|rxr_|efa_rdm",
            "write_tx_error|write_rx_error|prov_err|write to eq|handle_error|cq_err|completion error",
        ],
        ErrorClass::EfaReach,
        "an operation of libfabric's EFA provider failed",
        "On EFA an operation without a better reason fails because the peer does not answer.",
    ),
    row(
        &["net/ofi", "completed with error"],
        ErrorClass::EfaReach,
        "an operation of aws-ofi-nccl failed",
        "On EFA an operation without a better reason fails because the peer does not answer.",
    ),
    row(
        &["couldn't open av|av_open|open av|address vector|address_vector"],
        ErrorClass::Creation,
        "libfabric could not create an address vector",
        "The provider does not support the requested kind or size.",
    )
    .only_with(&[EINVAL]),
    row(
        &[OFI, "couldn't open|could not open|unable to open|couldn't enable|\
             couldn't allocate endpoint|couldn't bind|create extended cq|extended cq|\
             cannot create ah|create ah|fi_endpoint|fi_domain|fi_fabric|fi_av_open|\
             fi_cq_open|fi_enable|fi_ep_bind|endpoint open|address vector|av open|cq open|\
             domain open|open domain|open endpoint|create endpoint|efadv_create|ibv_create|\
             create qp|create cq|open fabric|enable endpoint|open cq|open av|ep_open", "fail|couldn't|\
             could not|unable|cannot|error|err|rc"],
        ErrorClass::Creation,
        "libfabric could not create its objects",
        "The provider or the kernel refused a domain, an endpoint, a completion queue or an address \
         vector; the error number has the reason.",
    ),
    row(
        &["fabric is not available|fallback fabric|fabric not available"],
        ErrorClass::Fallback,
        "Intel MPI's fabric is not available",
        "libfabric found no device for the requested fabric, and no other one is allowed.",
    ),
];
