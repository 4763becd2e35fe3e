//! Manifests for Kubernetes and OpenShift, from what a node has.
