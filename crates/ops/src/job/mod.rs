//! The environment that a job on this host should have.
