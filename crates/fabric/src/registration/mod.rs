//! The keys by which devices know a memory: what a region holds, and lanes look up for every operation. The objects behind
//! the keys are the backends' own; here they are only kept.

pub(crate) mod ofi;
pub(crate) mod verbs;

use std::sync::Arc;

/// By whom it is registered.
pub(crate) enum Registration {
    /// With a device.
    Verbs(Arc<verbs::Mr>),
    /// With a provider of libfabric.
    Ofi(Arc<ofi::Mr>),
    /// With any number of devices, at the moment maybe none; software lanes look at the region itself. In a
    /// box, so that the others, which are looked at for every operation, stay two words.
    Several(Box<Keys>),
    /// With nobody: software lanes look at the region itself.
    Software,
    /// With nobody, and links let peers of this host reach it alone.
    Near,
}

/// What any number of devices know one memory by.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pub(crate) verbs: verbs::Keyring,
    pub(crate) ofi: ofi::Keyring,
}

const _: () = assert!(size_of::<Registration>() == 2 * size_of::<usize>());
