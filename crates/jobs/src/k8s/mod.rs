//! Manifests for Kubernetes and OpenShift, from the facts of a node.
//!
//! Names are parsed at the boundary ([`Name`], [`Image`], [`Resource`]), so that no manifest can contain other YAML.
//! Each kind of object has a function that returns a [`Manifest`], with comments for the
//! user. Nothing here connects to a cluster.
//!
//! Start at [`Manifest`], then at the file of the object you want.

mod exporter;
mod job;
mod machine_config;
mod manifest;
mod name;
mod network;
mod nic_group;
mod pod;
mod policy;
mod security;
mod verify;
mod yaml;

pub use exporter::{EXPORTER_PORT, ExporterRequest, exporter};
pub use job::{JobRequest, JobType, PodLaunch, job};
pub use machine_config::{MachineConfigRequest, machine_config};
pub use manifest::{Manifest, ManifestSet, Platform, text};
pub use name::{Image, Name, Resource, Subnet};
pub use network::{NetworkRequest, network};
pub use nic_group::{LinkType, NicGroup};
pub use pod::Workload;
pub use policy::{PolicyRequest, policy};
pub use verify::{VerifyRequest, verify};
