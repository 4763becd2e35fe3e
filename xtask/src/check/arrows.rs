//! The allowed dependencies between our crates: arrows only go down.

use super::metadata::Package;
use crate::Failure;

/// All allowed arrows. A new crate or arrow is a design decision: add it here and in ARCHITECTURE.md.
const ARROWS: &[(&str, &[&str])] = &[
    ("metric", &[]),
    ("kv-proto", &[]),
    ("kv-store", &[]),
    ("kv-disk", &[]),
    ("rdma-sys", &[]),
    ("fabric", &["rdma-sys"]),
    ("access", &["fabric"]),
    ("web", &["access"]),
    ("report", &[]),
    ("measure", &["fabric", "report"]),
    ("kv-client", &["fabric", "kv-proto"]),
    // The client for tests only.
    ("kv-server", &["access", "fabric", "kv-client", "kv-disk", "kv-proto", "kv-store", "metric"]),
    ("node", &["metric"]),
    ("doctor", &["metric", "node", "report"]),
    ("change", &["doctor", "node"]),
    ("jobs", &["doctor", "node"]),
    ("remote", &["doctor", "jobs", "node"]),
    (
        "wirelane",
        &[
            "access",
            "change",
            "doctor",
            "fabric",
            "jobs",
            "kv-client",
            "kv-disk",
            "kv-proto",
            "kv-server",
            "kv-store",
            "measure",
            "metric",
            "node",
            "remote",
            "report",
            "web",
        ],
    ),
    ("xtask", &[]),
];

pub(crate) fn check(packages: &[Package]) -> Result<(), Failure> {
    let ours: Vec<&Package> = packages.iter().filter(|package| package.ours).collect();
    for package in &ours {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            return Err(format!("{} has no row in xtask/src/check/arrows.rs", package.name));
        };
        let is_ours = |need: &&String| ours.iter().any(|package| package.name == **need);
        for need in package.needs.iter().filter(is_ours) {
            if !allowed.contains(&need.as_str()) {
                return Err(format!(
                    "{} depends on {need}, which is not allowed; see ARCHITECTURE.md",
                    package.name
                ));
            }
        }
    }
    match ARROWS.iter().find(|(name, _)| !ours.iter().any(|package| package.name == *name)) {
        Some((name, _)) => {
            Err(format!("xtask/src/check/arrows.rs names {name}, which is not a crate"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Our crates with the allowed dependencies, except for those of `fabric`.
    fn workspace(fabric_needs: &str) -> Vec<Package> {
        let package = |(name, allowed): &(&str, &[&str])| Package {
            name: (*name).to_owned(),
            version: String::new(),
            licence: String::new(),
            ours: true,
            needs: match *name {
                "fabric" => vec![fabric_needs.to_owned()],
                _ => allowed.iter().map(|need| (*need).to_owned()).collect(),
            },
        };
        ARROWS.iter().map(package).collect()
    }

    #[test]
    fn an_arrow_upwards_is_refused() {
        assert_eq!(check(&workspace("rdma-sys")), Ok(()));
        assert!(check(&workspace("wirelane")).unwrap_err().contains("fabric depends on wirelane"));
    }

    #[test]
    fn a_crate_without_a_row_is_refused() {
        let mut packages = workspace("rdma-sys");
        packages[0].name = "surprise".to_owned();
        assert!(check(&packages).is_err());
    }
}
