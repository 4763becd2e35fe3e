//! A pod that runs a command with `wirelane exec`, in any image.

use serde_json::{Value, json};

use super::{Image, Name, Resource};

/// A command with its resources.
#[derive(Debug)]
pub struct Workload<'w> {
    /// The name of the object, and of its service account.
    pub name: &'w Name,
    /// Its namespace.
    pub namespace: &'w Name,
    /// An image that has this program.
    pub image: &'w Image,
    /// The image of the command; `None`: the same.
    pub job_image: Option<&'w Image>,
    /// Whether it gets RDMA devices.
    pub with_rdma: bool,
    /// The resource of its devices.
    pub resource: &'w Resource,
    /// Number of devices.
    pub devices: u32,
    /// The network that they are attached to.
    pub network: &'w Name,
    /// Number of GPUs.
    pub gpus: u32,
    /// The command.
    pub command: &'w [String],
}

impl Workload<'_> {
    /// A pod template: metadata and spec.
    pub(super) fn template(&self, more_environment: &[Value], restart: &str) -> Value {
        let mut metadata = json!({ "labels": self.labels() });
        if self.with_rdma {
            let networks = vec![self.network.to_string(); self.devices as usize];
            metadata["annotations"] = json!({ "k8s.v1.cni.cncf.io/networks": networks.join(",") });
        }
        json!({ "metadata": metadata, "spec": self.spec(more_environment, restart) })
    }

    pub(super) fn labels(&self) -> Value {
        json!({ "app.kubernetes.io/name": self.name.to_string(), "app.kubernetes.io/part-of": "wirelane" })
    }

    pub(super) fn metadata(&self) -> Value {
        json!({
            "labels": self.labels(),
            "name": self.name.to_string(),
            "namespace": self.namespace.to_string(),
        })
    }

    fn spec(&self, more_environment: &[Value], restart: &str) -> Value {
        let mut volumes = vec![
            json!({ "name": "wirelane", "emptyDir": {} }),
            json!({ "name": "shm", "emptyDir": { "medium": "Memory" } }),
        ];
        if self.with_rdma {
            volumes.push(json!({ "name": "podnetinfo", "downwardAPI": { "items": [{
                "path": "network-status",
                "fieldRef": { "fieldPath": "metadata.annotations['k8s.v1.cni.cncf.io/network-status']" },
            }] } }));
        }
        json!({
            "automountServiceAccountToken": false,
            "containers": [self.container(more_environment)],
            "initContainers": [self.init_container()],
            "restartPolicy": restart,
            "serviceAccountName": self.name.to_string(),
            "volumes": volumes,
        })
    }

    /// Copies the program, so that the command's image need not have it.
    fn init_container(&self) -> Value {
        json!({
            "command": ["cp", "/usr/bin/wirelane", "/wirelane/wirelane"],
            "image": self.image.to_string(),
            "name": "wirelane",
            "resources": { "limits": small(), "requests": small() },
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            "volumeMounts": [{ "name": "wirelane", "mountPath": "/wirelane" }],
        })
    }

    fn container(&self, more_environment: &[Value]) -> Value {
        let mode = if self.with_rdma { "rdma" } else { "tcp" };
        let mut command = vec!["/wirelane/wirelane", "exec", "--mode", mode, "--"];
        command.extend(self.command.iter().map(String::as_str));
        let mut mounts = vec![
            json!({ "name": "wirelane", "mountPath": "/wirelane", "readOnly": true }),
            json!({ "name": "shm", "mountPath": "/dev/shm" }),
        ];
        if self.with_rdma {
            mounts.push(
                json!({ "name": "podnetinfo", "mountPath": "/etc/podnetinfo", "readOnly": true }),
            );
        }
        let mut container = json!({
            "command": command,
            "image": self.job_image.unwrap_or(self.image).to_string(),
            "name": "job",
            "securityContext": self.security(),
            "volumeMounts": mounts,
        });
        if let Some(resources) = self.resources() {
            container["resources"] = json!({ "limits": resources, "requests": resources });
        }
        if !more_environment.is_empty() {
            container["env"] = json!(more_environment);
        }
        container
    }

    /// Devices are requested in whole numbers, with limits equal to requests.
    fn resources(&self) -> Option<Value> {
        let mut resources = json!({});
        if self.with_rdma && self.devices > 0 {
            resources[self.resource.to_string()] = json!(self.devices.to_string());
        }
        if self.gpus > 0 {
            resources["nvidia.com/gpu"] = json!(self.gpus.to_string());
        }
        resources.as_object().is_some_and(|some| !some.is_empty()).then_some(resources)
    }

    /// RDMA locks memory: this needs IPC_LOCK, which is effective only for root.
    fn security(&self) -> Value {
        if self.with_rdma {
            return json!({
                "allowPrivilegeEscalation": false,
                "capabilities": { "add": ["IPC_LOCK"], "drop": ["ALL"] },
                "runAsUser": 0,
            });
        }
        json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } })
    }
}

/// Resources for copying a file.
fn small() -> Value {
    json!({ "cpu": "100m", "memory": "64Mi" })
}
