//! The service account of a workload, and on OpenShift its security context constraints.

use serde_json::{Value, json};

use super::{Manifest, Name, Platform};

/// Privileges of a workload beyond the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Privileges {
    None,
    /// To lock memory, as root.
    LockMemory,
    /// The host network, with its fabric.
    HostNetwork,
}

/// The account, and on OpenShift constraints with only these privileges, bound to it.
pub(super) fn account(
    name: &Name,
    namespace: &Name,
    privileges: Privileges,
    platform: Platform,
) -> Vec<Manifest> {
    let account = Manifest::new(json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": name.to_string(), "namespace": namespace.to_string() },
    }));
    if platform == Platform::Kubernetes || privileges == Privileges::None {
        return vec![account];
    }
    // Constraints have no namespace, so it is part of the name.
    let constraints = namespace.with_suffix(&name.to_string().chars().take(40).collect::<String>());
    let constraints = constraints.trim_end_matches('-').to_owned();
    vec![
        account,
        Manifest::new(scc(&constraints, privileges))
            .with_comment("A cluster administrator must apply this one."),
        Manifest::new(role(name, namespace, &constraints)),
        Manifest::new(binding(name, namespace)),
    ]
}

fn scc(name: &str, privileges: Privileges) -> Value {
    let locks = privileges == Privileges::LockMemory;
    let host = privileges == Privileges::HostNetwork;
    json!({
        "allowHostDirVolumePlugin": false,
        "allowHostIPC": false,
        "allowHostNetwork": host,
        "allowHostPID": false,
        "allowHostPorts": host,
        "allowPrivilegeEscalation": false,
        "allowPrivilegedContainer": false,
        "allowedCapabilities": if locks { json!(["IPC_LOCK"]) } else { json!([]) },
        "apiVersion": "security.openshift.io/v1",
        "fsGroup": { "type": "RunAsAny" },
        "kind": "SecurityContextConstraints",
        "metadata": { "name": name },
        "readOnlyRootFilesystem": false,
        "requiredDropCapabilities": [],
        "runAsUser": { "type": "RunAsAny" },
        "seLinuxContext": { "type": "MustRunAs" },
        "seccompProfiles": ["runtime/default"],
        "supplementalGroups": { "type": "RunAsAny" },
        "users": [],
        "volumes": ["configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"],
    })
}

fn role(name: &Name, namespace: &Name, constraints: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": name.to_string(), "namespace": namespace.to_string() },
        "rules": [{
            "apiGroups": ["security.openshift.io"],
            "resourceNames": [constraints],
            "resources": ["securitycontextconstraints"],
            "verbs": ["use"],
        }],
    })
}

fn binding(name: &Name, namespace: &Name) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": name.to_string(), "namespace": namespace.to_string() },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name.to_string() },
        "subjects": [{
            "kind": "ServiceAccount",
            "name": name.to_string(),
            "namespace": namespace.to_string(),
        }],
    })
}
