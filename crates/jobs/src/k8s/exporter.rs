//! The exporter on every node, and its monitor.

use serde_json::{Value, json};

use super::security::{Privileges, account};
use super::{Image, Manifest, ManifestSet, Name, Platform};

/// The port of the exporter.
pub const EXPORTER_PORT: u16 = 9878;

/// A DaemonSet and a PodMonitor for it.
pub fn exporter(name: &Name, namespace: &Name, image: &Image, platform: Platform) -> ManifestSet {
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
            "template": { "metadata": { "labels": labels }, "spec": spec(name, image) },
            "updateStrategy": { "type": "RollingUpdate" },
        },
    });
    manifests.push(Manifest::new(set).with_comment(
        "Uses the host network, where /sys has the host's RDMA devices and all their counters.",
    ));
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

fn spec(name: &Name, image: &Image) -> Value {
    let resources = json!({ "cpu": "100m", "memory": "64Mi" });
    json!({
        "automountServiceAccountToken": false,
        "containers": [{
            "args": ["exporter", "--listen", format!("0.0.0.0:{EXPORTER_PORT}")],
            "image": image.to_string(),
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
        "serviceAccountName": name.to_string(),
        "tolerations": [{ "operator": "Exists" }],
    })
}
