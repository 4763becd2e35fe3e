//! The checks, in the order in which findings of equal severity are listed.

use super::Check;

mod acs;
mod aer;
mod bond;
mod cgroup;
mod congestion;
mod ecn;
mod firewall;
mod flow_control;
mod gid;
mod gid_tables;
mod governor;
mod gpudirect;
mod guid;
mod hugepages;
mod idle;
mod iommu;
mod kernel_log;
mod libfabric;
mod link_errors;
mod losses;
mod memlock;
mod modules;
mod mtu;
mod netns;
mod numa;
mod pcie;
mod permissions;
mod ports;
mod rate;
mod read_request;
mod saturated;
mod store_disk;
mod unreadable_counters;
mod versions;

/// Every check.
pub const CHECKS: &[Check] = &[
    ports::CHECK,
    modules::CHECK,
    permissions::CHECK,
    libfabric::CHECK,
    memlock::CHECK,
    guid::CHECK,
    gid::CHECK,
    gid_tables::CHECK,
    rate::CHECK,
    pcie::CHECK,
    read_request::CHECK,
    mtu::CHECK,
    iommu::CHECK,
    acs::CHECK,
    gpudirect::CHECK,
    numa::CHECK,
    flow_control::CHECK,
    ecn::CHECK,
    congestion::CHECK,
    losses::CHECK,
    link_errors::CHECK,
    saturated::CHECK,
    unreadable_counters::CHECK,
    kernel_log::CHECK,
    aer::CHECK,
    bond::CHECK,
    firewall::CHECK,
    netns::CHECK,
    cgroup::CHECK,
    versions::CHECK,
    governor::CHECK,
    idle::CHECK,
    hugepages::CHECK,
    store_disk::CHECK,
];
