//! What an error line of an RDMA program means.
