//! A check of the fabric in pods: the doctor, then a transfer between two nodes.

use serde_json::{Value, json};

use super::security::{Privileges, account};
use super::{Manifest, ManifestSet, Platform, Workload};

/// The check to write manifests for.
#[derive(Debug)]
pub struct VerifyRequest<'r> {
    /// Its workload; the command is not used.
    pub workload: Workload<'r>,
    /// The platform of the cluster.
    pub platform: Platform,
}

/// A peer pod, and a Job that succeeds only if the fabric works.
pub fn verify(request: &VerifyRequest) -> ManifestSet {
    let workload = &request.workload;
    let privileges = if workload.with_rdma { Privileges::LockMemory } else { Privileges::None };
    let mut manifests = account(workload.name, workload.namespace, privileges, request.platform);
    let peer = workload.name.with_suffix("peer");
    manifests.push(Manifest::new(service(workload, &peer)));
    manifests.push(server(workload, &peer));
    manifests.push(check(workload, &peer));
    ManifestSet { manifests, notes: vec![format!("delete the pod {peer} after the check")] }
}

fn service(workload: &Workload, peer: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "labels": labels(peer), "name": peer, "namespace": workload.namespace.to_string() },
        "spec": {
            "clusterIP": "None",
            "ports": [{ "name": "links", "port": LINK_PORT }],
            "publishNotReadyAddresses": true,
            "selector": labels(peer),
        },
    })
}

/// The peer, on another node.
fn server(workload: &Workload, peer: &str) -> Manifest {
    let listen = format!("0.0.0.0:{LINK_PORT}");
    let command = words(&[PROGRAM, "serve", "--allow-anonymous", "--listen", &listen]);
    let mut pod =
        Workload { command: &command, job_image: None, ..copy(workload) }.template(&[], "Always");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["labels"] = labels(peer);
    pod["metadata"]["name"] = json!(peer);
    pod["metadata"]["namespace"] = json!(workload.namespace.to_string());
    Manifest::new(pod)
        .with_comment("The peer of the check. It accepts connections without authentication: delete it afterwards.")
}

fn check(workload: &Workload, peer: &str) -> Manifest {
    // Not `--strict`: a pod sees the whole host, and not all its warnings concern the pod.
    let doctor = if workload.with_rdma { "doctor --require rdma" } else { "doctor" };
    let policy = if workload.with_rdma { "require" } else { "off" };
    let address = format!("{peer}.{}.svc:{LINK_PORT}", workload.namespace);
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
        .with_comment("Succeeds only if the doctor finds no problem and the link to the peer, on another node, transfers data.")
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
/// The default port of links.
const LINK_PORT: u16 = 50051;
