//! What cargo says about the workspace and what it depends on.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Failure, shell};

/// A package, ours or another's.
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
    // What other systems would build is not ours to judge.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let text = shell::output(cargo.args(["--filter-platform", &target]))?;
    let json: Value =
        serde_json::from_str(&text).map_err(|error| format!("read cargo metadata: {error}"))?;
    let package = |json: &Value| Package {
        name: ours(text_of(&json["name"])),
        version: text_of(&json["version"]),
        licence: text_of(&json["license"]),
        ours: json["source"].is_null(),
        needs: array(&json["dependencies"])
            .iter()
            .map(|need| ours(text_of(&need["name"])))
            .collect(),
    };
    Ok(array(&json["packages"]).iter().map(package).collect())
}

/// The packages that the lock file holds in more than one version.
pub(crate) fn duplicates(packages: &[Package]) -> BTreeMap<&str, Vec<&str>> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

/// Our libraries are published with a prefix; here they are called as their folders are.
fn ours(name: String) -> String {
    name.strip_prefix("wirelane-").map_or(name.clone(), str::to_owned)
}

fn text_of(json: &Value) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn array(json: &Value) -> &[Value] {
    json.as_array().map_or(&[], Vec::as_slice)
}
