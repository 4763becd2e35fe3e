//! A job on one node, or on several.

use serde_json::{Value, json};

use super::security::{Privileges, account};
use super::{Manifest, ManifestSet, Platform, Workload};
use crate::launch;

/// The job to write manifests for.
#[derive(Debug)]
pub struct JobRequest<'r> {
    /// The workload.
    pub workload: Workload<'r>,
    /// On one node or several.
    pub kind: JobType,
    /// The framework that connects several pods; `None`: the command does it itself.
    pub launch: Option<PodLaunch>,
    /// The platform of the cluster.
    pub platform: Platform,
}

/// The framework that connects several pods. Each pod starts its own part; no launcher executes commands in pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodLaunch {
    /// torchrun, in every pod.
    Torch,
    /// `TF_CONFIG`, every pod a worker.
    Tensorflow,
}

/// On one node or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobType {
    /// One pod.
    Single,
    /// This number of pods, with stable names.
    Multi(u32),
}

/// The job with its account.
pub fn job(request: &JobRequest) -> ManifestSet {
    let workload = &request.workload;
    let privileges = if workload.with_rdma { Privileges::LockMemory } else { Privileges::None };
    let mut manifests = account(workload.name, workload.namespace, privileges, request.platform);
    match request.kind {
        JobType::Single => manifests.push(single(workload)),
        JobType::Multi(replicas) => {
            manifests.push(Manifest::new(headless(workload)));
            manifests.push(multi(workload, replicas, request.launch));
        }
    }
    ManifestSet { manifests, notes: Vec::new() }
}

fn single(workload: &Workload) -> Manifest {
    let object = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": workload.metadata(),
        "spec": { "backoffLimit": 0, "template": workload.template(&[], "Never") },
    });
    Manifest::new(object).with_comment(
        "The init container copies `wirelane`, which finds the pod's devices and runs the command.",
    )
}

/// DNS names of the pods, also before they are ready: ranks wait for each other.
fn headless(workload: &Workload) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": workload.metadata(),
        "spec": {
            "clusterIP": "None",
            "ports": [{ "name": "rendezvous", "port": RENDEZVOUS_PORT }],
            "publishNotReadyAddresses": true,
            "selector": workload.labels(),
        },
    })
}

fn multi(workload: &Workload, replicas: u32, launch: Option<PodLaunch>) -> Manifest {
    let mut environment = rank_variables(workload, replicas);
    let torchrun = launch::torchrun(workload.command);
    let workload = match launch {
        Some(PodLaunch::Torch) => &Workload { command: &torchrun, ..*workload },
        Some(PodLaunch::Tensorflow) => {
            environment.push(tf_config(workload, replicas));
            workload
        }
        None => workload,
    };
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": workload.metadata(),
        "spec": {
            "podManagementPolicy": "Parallel",
            "replicas": replicas,
            "selector": { "matchLabels": workload.labels() },
            "serviceName": workload.name.to_string(),
            "template": workload.template(&environment, "Always"),
        },
    });
    Manifest::new(object)
        .with_comment("Pod N has rank N: torchrun reads PET_*, other programs NODE_RANK, NNODES, MASTER_ADDR and MASTER_PORT.")
        .with_comment("Rank 0 is found by its name in the headless service. The pod index label needs Kubernetes 1.28.")
        .with_comment("A StatefulSet restarts a command that ends: delete it when the job is done.")
}

/// The rendezvous variables of each rank.
fn rank_variables(workload: &Workload, replicas: u32) -> Vec<Value> {
    let first = format!("{0}-0.{0}.{1}.svc", workload.name, workload.namespace);
    let per_node = workload.gpus.max(1).to_string();
    let plain = |name: &str, value: String| json!({ "name": name, "value": value });
    let rank = |name: &str| {
        json!({ "name": name, "valueFrom": { "fieldRef": {
            "fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']" } } })
    };
    vec![
        plain("MASTER_ADDR", first.clone()),
        plain("MASTER_PORT", RENDEZVOUS_PORT.to_string()),
        plain("NNODES", replicas.to_string()),
        rank("NODE_RANK"),
        plain("PET_MASTER_ADDR", first),
        plain("PET_MASTER_PORT", RENDEZVOUS_PORT.to_string()),
        plain("PET_NNODES", replicas.to_string()),
        rank("PET_NODE_RANK"),
        plain("PET_NPROC_PER_NODE", per_node),
    ]
}

/// Every pod is a worker; Kubernetes expands the pod's index from the variable that is defined before.
fn tf_config(workload: &Workload, replicas: u32) -> Value {
    let address = |at: u32| {
        format!("{0}-{at}.{0}.{1}.svc:{RENDEZVOUS_PORT}", workload.name, workload.namespace)
    };
    let cluster = json!({ "worker": (0..replicas).map(address).collect::<Vec<_>>() });
    let config =
        format!(r#"{{"cluster":{cluster},"task":{{"type":"worker","index":$(NODE_RANK)}}}}"#);
    json!({ "name": "TF_CONFIG", "value": config })
}

/// torchrun's default.
const RENDEZVOUS_PORT: u16 = 29500;
