//! Who a workload is, and on OpenShift what it may do: a service account, and constraints of its own.

use serde_json::{Value, json};

use super::{Manifest, Name, Platform};

/// What a workload needs beyond what everybody may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// To lock memory, as root.
    LockMemory,
    /// To see the host's network, and so its fabric.
    HostNetwork,
}

/// The account, and on OpenShift constraints that allow just this, bound to it alone.
pub(super) fn account(
    name: &Name,
    namespace: &Name,
    needs: Needs,
    platform: Platform,
) -> Vec<Manifest> {
    let account = Manifest::new(json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": name.to_string(), "namespace": namespace.to_string() },
    }));
    if platform == Platform::Kubernetes || needs == Needs::Nothing {
        return vec![account];
    }
    // Constraints have no namespace, so the name carries it.
    let constraints = namespace.with(&name.to_string().chars().take(40).collect::<String>());
    let constraints = constraints.trim_end_matches('-').to_owned();
    vec![
        account,
        Manifest::new(scc(&constraints, needs))
            .saying("A cluster's administrator must apply this one."),
        Manifest::new(role(name, namespace, &constraints)),
        Manifest::new(binding(name, namespace)),
    ]
}

fn scc(name: &str, needs: Needs) -> Value {
    let locks = needs == Needs::LockMemory;
    let host = needs == Needs::HostNetwork;
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
