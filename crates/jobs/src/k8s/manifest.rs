//! An object for a cluster, with comments.

use serde_json::Value;

use super::yaml;

/// One object.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Comment lines above it.
    pub comment: Vec<String>,
    /// The object itself.
    pub object: Value,
}

/// Objects, with notes for the user.
#[derive(Debug, Default)]
pub struct ManifestSet {
    /// In the order in which they are applied.
    pub manifests: Vec<Manifest>,
    /// Notes for stderr.
    pub notes: Vec<String>,
}

/// The platform of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Has security context constraints.
    OpenShift,
    /// Has none.
    Kubernetes,
}

impl Manifest {
    pub(super) fn new(object: Value) -> Self {
        Manifest { comment: Vec::new(), object }
    }

    pub(super) fn with_comment(mut self, line: impl Into<String>) -> Self {
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
