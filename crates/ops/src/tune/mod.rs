//! Settings of a host that make its fabric faster.
