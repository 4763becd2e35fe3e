//! The exporter on every node, and its monitor.

use serde_json::{Value, json};

use super::security::{Privileges, account};
use super::{Image, Manifest, ManifestSet, Name, Platform};

/// The port of the exporter.
pub const EXPORTER_PORT: u16 = 9878;

/// The exporter to write manifests for.
#[derive(Debug)]
pub struct ExporterRequest<'r> {
    /// The name of the objects.
    pub name: &'r Name,
    /// Their namespace.
    pub namespace: &'r Name,
    /// An image that has this program.
    pub image: &'r Image,
    /// The platform of the cluster.
    pub platform: Platform,
    /// Whether it reads GPUs.
    pub with_gpus: bool,
}

/// A DaemonSet and a PodMonitor for it.
pub fn exporter(request: &ExporterRequest) -> ManifestSet {
    let ExporterRequest { name, namespace, platform, .. } = *request;
    let mut manifests = account(name, namespace, Privileges::HostNetwork, platform);
    let labels = json!({ "app.kubernetes.io/name": name.to_string(), "app.kubernetes.io/part-of": "wirelane" });
    let metadata =
        json!({ "labels": labels, "name": name.to_string(), "namespace": namespace.to_string() });
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": spec(request) },
            "updateStrategy": { "type": "RollingUpdate" },
        },
    });
    let gpus = match request.with_gpus {
        true => {
            "Sees all GPUs by the runtime class `nvidia` of NVIDIA's GPU operator, without requesting any."
        }
        false => "Without GPUs, which a pod sees only with NVIDIA's container runtime: see --gpu.",
    };
    manifests.push(
        Manifest::new(set)
            .with_comment("Uses the host network, where /sys has the host's RDMA devices and all their counters.")
            .with_comment(gpus),
    );
    let monitor = json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": metadata,
        "spec": {
            "podMetricsEndpoints": [{ "interval": "15s", "port": "metrics" }],
            "selector": { "matchLabels": labels },
        },
    });
    manifests.push(Manifest::new(monitor).with_comment("Needs the Prometheus operator."));
    ManifestSet { manifests, notes: Vec::new() }
}

fn spec(request: &ExporterRequest) -> Value {
    let resources = json!({ "cpu": "100m", "memory": "64Mi" });
    let mut arguments =
        vec!["exporter".to_owned(), "--listen".to_owned(), format!("0.0.0.0:{EXPORTER_PORT}")];
    if !request.with_gpus {
        arguments.push("--no-gpu".to_owned());
    }
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "containers": [{
            "args": arguments,
            "image": request.image.to_string(),
            "name": "exporter",
            "ports": [{
                "containerPort": EXPORTER_PORT,
                "hostPort": EXPORTER_PORT,
                "name": "metrics",
                "protocol": "TCP",
            }],
            "readinessProbe": { "httpGet": { "path": "/healthz", "port": "metrics" } },
            "resources": { "limits": resources, "requests": resources },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
            },
        }],
        "dnsPolicy": "ClusterFirstWithHostNet",
        "hostNetwork": true,
        "serviceAccountName": request.name.to_string(),
        "tolerations": [{ "operator": "Exists" }],
    });
    if request.with_gpus {
        spec["runtimeClassName"] = json!("nvidia");
        spec["containers"][0]["env"] = json!([
            { "name": "NVIDIA_VISIBLE_DEVICES", "value": "all" },
            { "name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility" },
        ]);
    }
    spec
}
