//! Manifests for Kubernetes and OpenShift, made from what was found on a node.
//!
//! Names are parsed at the listener ([`Name`], [`Image`], [`Resource`]), so that no manifest can say what nobody meant.
//! Each kind of object is a function that gives a [`Manifest`]; what a person must know stands above it as a
//! comment. Nothing here talks to a cluster.
//!
//! Start at [`Manifest`], then at the file of the object you want.

mod card;
mod exporter;
mod job;
mod machine_config;
mod manifest;
mod name;
mod network;
mod pod;
mod policy;
mod security;
mod verify;
mod yaml;

pub use card::{Card, LinkType};
pub use exporter::{EXPORTER_PORT, exporter};
pub use job::{JobRequest, JobType, PodLaunch, job};
pub use machine_config::{MachineConfigRequest, machine_config};
pub use manifest::{Manifest, Platform, Printed, text};
pub use name::{Image, Name, Resource, Subnet};
pub use network::{NetworkRequest, network};
pub use pod::Workload;
pub use policy::{PolicyRequest, policy};
pub use verify::{VerifyRequest, verify};
