//! Arguments that several commands take.

pub(crate) mod credentials;
pub(crate) mod host;
pub(crate) mod hosts;
pub(crate) mod peer;
pub(crate) mod size;
pub(crate) mod transport;
