//! Arguments that several commands take.

pub(crate) mod caller;
pub(crate) mod host;
pub(crate) mod hosts;
pub(crate) mod peer;
pub(crate) mod size;
pub(crate) mod transport;
