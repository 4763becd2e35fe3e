//! A job: on one node, or on several that find each other.

use serde_json::{Value, json};

use super::security::{Needs, account};
use super::{Manifest, Platform, Printed, Workload};
use crate::launch;

/// What is wanted.
#[derive(Debug)]
pub struct JobRequest<'r> {
    /// What runs.
    pub workload: Workload<'r>,
    /// On one node or several.
    pub kind: JobType,
    /// Who makes one job of several pods; `None`: the command does so by itself.
    pub launch: Option<PodLaunch>,
    /// What runs the cluster.
    pub platform: Platform,
}

/// Who makes one job of several pods. Nobody reaches into pods for it: each starts its own part, and they find each other.
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
    /// So many, with names that stay.
    Multi(u32),
}

/// The job with its account.
pub fn job(request: &JobRequest) -> Printed {
    let workload = &request.workload;
    let needs = if workload.with_rdma { Needs::LockMemory } else { Needs::Nothing };
    let mut manifests = account(workload.name, workload.namespace, needs, request.platform);
    match request.kind {
        JobType::Single => manifests.push(single(workload)),
        JobType::Multi(replicas) => {
            manifests.push(Manifest::new(headless(workload)));
            manifests.push(multi(workload, replicas, request.launch));
        }
    }
    Printed { manifests, notes: Vec::new() }
}

fn single(workload: &Workload) -> Manifest {
    let object = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": workload.metadata(),
        "spec": { "backoffLimit": 0, "template": workload.template(&[], "Never") },
    });
    Manifest::new(object).saying(
        "The init container brings `wirelane`; it finds the pod's devices, then runs the command.",
    )
}

/// The pods' names, also before they are ready: ranks wait for each other by themselves.
fn headless(workload: &Workload) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": workload.metadata(),
        "spec": {
            "clusterIP": "None",
            "ports": [{ "name": "rendezvous", "port": RENDEZVOUS }],
            "publishNotReadyAddresses": true,
            "selector": workload.labels(),
        },
    })
}

fn multi(workload: &Workload, replicas: u32, launch: Option<PodLaunch>) -> Manifest {
    let mut environment = ranks(workload, replicas);
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
        .saying("Pod N has rank N: torchrun reads PET_*, others NODE_RANK, NNODES, MASTER_ADDR and MASTER_PORT.")
        .saying("Rank 0 is found by its name in the headless service. The label with a pod's number needs Kubernetes 1.28.")
        .saying("A StatefulSet starts a command again when it ends: delete it when the work is done.")
}

/// What each rank must know of the others.
fn ranks(workload: &Workload, replicas: u32) -> Vec<Value> {
    let first = format!("{0}-0.{0}.{1}.svc", workload.name, workload.namespace);
    let per_node = workload.gpus.max(1).to_string();
    let plain = |name: &str, value: String| json!({ "name": name, "value": value });
    let rank = |name: &str| {
        json!({ "name": name, "valueFrom": { "fieldRef": {
            "fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']" } } })
    };
    vec![
        plain("MASTER_ADDR", first.clone()),
        plain("MASTER_PORT", RENDEZVOUS.to_string()),
        plain("NNODES", replicas.to_string()),
        rank("NODE_RANK"),
        plain("PET_MASTER_ADDR", first),
        plain("PET_MASTER_PORT", RENDEZVOUS.to_string()),
        plain("PET_NNODES", replicas.to_string()),
        rank("PET_NODE_RANK"),
        plain("PET_NPROC_PER_NODE", per_node),
    ]
}

/// Every pod is a worker; Kubernetes puts the pod's number in for the variable that stands before this one.
fn tf_config(workload: &Workload, replicas: u32) -> Value {
    let address =
        |at: u32| format!("{0}-{at}.{0}.{1}.svc:{RENDEZVOUS}", workload.name, workload.namespace);
    let cluster = json!({ "worker": (0..replicas).map(address).collect::<Vec<_>>() });
    let config =
        format!(r#"{{"cluster":{cluster},"task":{{"type":"worker","index":$(NODE_RANK)}}}}"#);
    json!({ "name": "TF_CONFIG", "value": config })
}

/// torchrun's own.
const RENDEZVOUS: u16 = 29500;
