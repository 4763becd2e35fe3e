//! A check of the fabric from inside pods: the doctor, then bytes from one node to another.

use serde_json::{Value, json};

use super::security::{Needs, account};
use super::{Manifest, Platform, Printed, Workload};

/// What is wanted.
#[derive(Debug)]
pub struct VerifyRequest<'r> {
    /// As what it runs; its command is not used.
    pub workload: Workload<'r>,
    /// What runs the cluster.
    pub platform: Platform,
}

/// A peer to talk to, and a Job that ends well only if the fabric is.
pub fn verify(request: &VerifyRequest) -> Printed {
    let workload = &request.workload;
    let needs = if workload.with_rdma { Needs::LockMemory } else { Needs::Nothing };
    let mut manifests = account(workload.name, workload.namespace, needs, request.platform);
    let peer = workload.name.with("peer");
    manifests.push(Manifest::new(service(workload, &peer)));
    manifests.push(server(workload, &peer));
    manifests.push(check(workload, &peer));
    Printed { manifests, notes: vec![format!("delete the pod {peer} when the check is over")] }
}

fn service(workload: &Workload, peer: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "labels": labels(peer), "name": peer, "namespace": workload.namespace.to_string() },
        "spec": {
            "clusterIP": "None",
            "ports": [{ "name": "links", "port": LINKS }],
            "publishNotReadyAddresses": true,
            "selector": labels(peer),
        },
    })
}

/// Another node's end of the link.
fn server(workload: &Workload, peer: &str) -> Manifest {
    let listen = format!("0.0.0.0:{LINKS}");
    let command = words(&[PROGRAM, "serve", "--allow-anonymous", "--listen", &listen]);
    let mut pod =
        Workload { command: &command, job_image: None, ..copy(workload) }.template(&[], "Always");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["labels"] = labels(peer);
    pod["metadata"]["name"] = json!(peer);
    pod["metadata"]["namespace"] = json!(workload.namespace.to_string());
    Manifest::new(pod).saying("The peer of the check. It lets everybody in: delete it afterwards.")
}

fn check(workload: &Workload, peer: &str) -> Manifest {
    // Not `--strict`: a pod sees the whole host, whose warnings are not all its own.
    let doctor = if workload.with_rdma { "doctor --require rdma" } else { "doctor" };
    let policy = if workload.with_rdma { "require" } else { "off" };
    let address = format!("{peer}.{}.svc:{LINKS}", workload.namespace);
    let script = format!(
        "set -e; {PROGRAM} {doctor}; {PROGRAM} connect {address} --policy {policy} --timeout 60 --seconds 5"
    );
    let command = words(&["sh", "-c", &script]);
    let mut template =
        Workload { command: &command, job_image: None, ..copy(workload) }.template(&[], "Never");
    template["spec"]["affinity"] = json!({ "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": { "matchLabels": labels(peer) },
            "topologyKey": "kubernetes.io/hostname",
        }],
    } });
    let object = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": workload.metadata(),
        "spec": { "activeDeadlineSeconds": 600, "backoffLimit": 2, "template": template },
    });
    Manifest::new(object)
        .saying("Succeeds only if the doctor finds no problem and the link to the peer, on another node, carries data.")
}

fn copy<'w>(workload: &Workload<'w>) -> Workload<'w> {
    Workload { ..*workload }
}

fn labels(peer: &str) -> Value {
    json!({ "app.kubernetes.io/name": peer, "app.kubernetes.io/part-of": "wirelane" })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const PROGRAM: &str = "/wirelane/wirelane";
/// Where links go by default.
const LINKS: u16 = 50051;
