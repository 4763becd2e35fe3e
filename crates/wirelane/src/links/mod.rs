//! Links as the settings ask for them: devices, keys, policies, and tickets from a server that wants TLS.

pub(crate) mod endpoint;
pub(crate) mod environment;
pub(crate) mod libfabric;
pub(crate) mod rdma;
pub(crate) mod ticket;
