//! Links as configured by the settings: devices, keys, policies, and tickets from servers with TLS.

pub(crate) mod endpoint;
pub(crate) mod environment;
pub(crate) mod libfabric;
pub(crate) mod rdma;
pub(crate) mod ticket;
