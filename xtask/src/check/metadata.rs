//! Cargo's metadata of the workspace and its dependencies.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Failure, shell};

/// A package of the workspace or a dependency.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The licence expression; empty if the package states none.
    pub(crate) licence: String,
    /// Whether it is part of this repository.
    pub(crate) ours: bool,
    /// The names of the packages it depends on, of every kind.
    pub(crate) needs: Vec<String>,
}

/// Every package of the lock file.
pub(crate) fn packages() -> Result<Vec<Package>, Failure> {
    let mut cargo = shell::cargo(&["metadata", "--format-version=1", "--locked"]);
    // Without dependencies of other systems.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let text = shell::output(cargo.args(["--filter-platform", &target]))?;
    let json: Value =
        serde_json::from_str(&text).map_err(|error| format!("read cargo metadata: {error}"))?;
    let package = |json: &Value| Package {
        name: folder_name(text_of(&json["name"])),
        version: text_of(&json["version"]),
        licence: text_of(&json["license"]),
        ours: json["source"].is_null(),
        needs: array(&json["dependencies"])
            .iter()
            .map(|need| folder_name(text_of(&need["name"])))
            .collect(),
    };
    Ok(array(&json["packages"]).iter().map(package).collect())
}

/// The packages with more than one version in the lock file.
pub(crate) fn duplicates(packages: &[Package]) -> BTreeMap<&str, Vec<&str>> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

/// The name of a package's folder: our libraries are published with a prefix.
fn folder_name(name: String) -> String {
    name.strip_prefix("wirelane-").map_or(name.clone(), str::to_owned)
}

fn text_of(json: &Value) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn array(json: &Value) -> &[Value] {
    json.as_array().map_or(&[], Vec::as_slice)
}
