//! An object for a cluster, with what a person should know of it.

use serde_json::Value;

use super::yaml;

/// One object.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Lines above it.
    pub comment: Vec<String>,
    /// The object itself.
    pub object: Value,
}

/// Objects, and what to say of them to who asked.
#[derive(Debug, Default)]
pub struct Printed {
    /// In the order in which they are applied.
    pub manifests: Vec<Manifest>,
    /// For stderr.
    pub notes: Vec<String>,
}

/// What runs the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// With security context constraints.
    OpenShift,
    /// Without.
    Kubernetes,
}

impl Manifest {
    pub(super) fn new(object: Value) -> Self {
        Manifest { comment: Vec::new(), object }
    }

    pub(super) fn saying(mut self, line: impl Into<String>) -> Self {
        self.comment.push(line.into());
        self
    }
}

/// One stream of YAML.
pub fn text(manifests: &[Manifest]) -> String {
    let mut text = String::new();
    for manifest in manifests {
        text.push_str("---\n");
        for line in &manifest.comment {
            text.push_str(&format!("# {line}\n"));
        }
        text.push_str(&yaml::document(&manifest.object));
    }
    text
}
