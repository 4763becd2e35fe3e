//! Which NCCL a job will load. A machine may hold several: the linker's, and the one of a torch wheel.

use std::collections::BTreeMap;

use node::{Seen, Tree};
use serde::Serialize;

use super::version::Version;

/// The NCCL that is assumed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Library {
    /// Its version; unknown is taken for one that chooses GIDs by address.
    pub version: Option<Version>,
    /// Where it is, if it was found and not told.
    pub path: Option<String>,
    /// Others that were found, with their versions.
    pub others: BTreeMap<String, Option<Version>>,
}

impl Library {
    /// The user's word, or the one that a job would find first.
    pub(super) fn find(
        tree: &Tree,
        environment: &BTreeMap<String, String>,
        told: Option<Version>,
    ) -> Self {
        let mut found = search(tree, environment);
        if told.is_some() {
            return Library { version: told, path: None, others: found.into_iter().collect() };
        }
        let first = if found.is_empty() { None } else { Some(found.remove(0)) };
        let version =
            first.as_ref().and_then(|(path, version)| version.or_else(|| inside(tree, path)));
        Library { version, path: first.map(|(path, _)| path), others: found.into_iter().collect() }
    }

    /// Whether it takes the first GID of a family and a protocol version by itself.
    pub(super) fn chooses_gids(&self) -> bool {
        self.version.is_none_or(|version| version >= Version::CHOOSES_GIDS)
    }

    /// Which NCCL is assumed, in a sentence; a second if another that is found would need other settings.
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut said = vec![match (&self.path, self.version) {
            (Some(path), Some(version)) => format!("NCCL {version} is assumed: {path}"),
            (Some(path), None) => {
                format!("{path} does not tell its version: NCCL 2.21 or newer is assumed")
            }
            (None, Some(version)) => format!("NCCL {version}, as you say"),
            (None, None) => "no NCCL is found: 2.21 or newer is assumed".to_owned(),
        }];
        let differs = |version: &Option<Version>| {
            version.is_some_and(|version| (version >= Version::CHOOSES_GIDS) != self.chooses_gids())
        };
        if let Some((path, Some(version))) =
            self.others.iter().find(|(_, version)| differs(version))
        {
            said.push(format!(
                "{path} is NCCL {version}, which needs other settings: if the job loads that one, ask for the settings of NCCL {version}"
            ));
        }
        said
    }
}

/// In the order in which a job finds them: LD_LIBRARY_PATH, a torch wheel's own, the linker's folders.
fn search(tree: &Tree, environment: &BTreeMap<String, String>) -> Vec<(String, Option<Version>)> {
    let mut found = Vec::new();
    let told = environment.get("LD_LIBRARY_PATH").map_or("", String::as_str);
    let told = told.split(':').filter(|folder| folder.starts_with('/')).take(MAX_FOLDERS);
    found.extend(told.filter_map(|folder| linked(tree, folder)));
    found.extend(wheels(tree, environment));
    found.extend(LINKER.iter().filter_map(|folder| linked(tree, folder)));
    let mut seen = Vec::new();
    found.retain(|(path, _): &(String, _)| {
        let is_new = !seen.contains(path);
        seen.push(path.clone());
        is_new
    });
    found
}

/// `libnccl.so.2` is a link to a file that has its version in its name.
fn linked(tree: &Tree, folder: &str) -> Option<(String, Option<Version>)> {
    let Seen::Value(real) = tree.real(&format!("{folder}/libnccl.so.2")) else { return None };
    let version = real.rsplit_once("libnccl.so.").and_then(|(_, version)| version.parse().ok());
    Some((real, version))
}

/// A wheel's file has no version in its name; the folder of its metadata beside it has.
fn wheels(tree: &Tree, environment: &BTreeMap<String, String>) -> Vec<(String, Option<Version>)> {
    let prefixes =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(|name| environment.get(name));
    let prefixes = prefixes.map(String::as_str).chain(["/opt/conda", "/usr/local", "/usr"]);
    let mut found = Vec::new();
    for prefix in prefixes.filter(|prefix| prefix.starts_with('/')) {
        let pythons = tree.list(&format!("{prefix}/lib"));
        for python in pythons.iter().filter(|name| name.starts_with("python3")) {
            for packages in ["site-packages", "dist-packages"] {
                let folder = format!("{prefix}/lib/{python}/{packages}");
                let path = format!("{folder}/nvidia/nccl/lib/libnccl.so.2");
                if tree.exists(&path) {
                    found.push((path, wheel_version(tree, &folder)));
                }
            }
        }
    }
    found
}

/// `nvidia_nccl_cu12-2.21.5.dist-info`.
fn wheel_version(tree: &Tree, folder: &str) -> Option<Version> {
    tree.list(folder).iter().find_map(|name| {
        let rest = name.strip_prefix("nvidia_nccl_")?.strip_suffix(".dist-info")?;
        rest.split_once('-')?.1.parse().ok()
    })
}

/// A library says of itself `NCCL version 2.21.5+cuda12.4`; some of its messages begin alike.
fn inside(tree: &Tree, path: &str) -> Option<Version> {
    let said = tree.after(path, "NCCL version ");
    said.iter().find_map(|text| text.split('+').next()?.parse().ok())
}

/// Where distributions, CUDA and containers put libraries for the linker.
const LINKER: [&str; 7] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/nccl/lib",
    "/opt/nccl/build/lib",
];
const MAX_FOLDERS: usize = 64;

#[cfg(test)]
mod tests {
    use super::super::test_machine;
    use super::*;
    use serde_json::json;

    fn of(files: serde_json::Value, variables: &[(&str, &str)]) -> Library {
        Library::find(&test_machine::tree(files), &test_machine::environment(variables), None)
    }

    #[test]
    fn the_linkers_tells_by_its_name_and_the_wheels_by_its_folder() {
        let linker = json!({
            "/usr/lib/x86_64-linux-gnu/libnccl.so.2->": "/usr/lib/x86_64-linux-gnu/libnccl.so.2.18.5",
            "/usr/lib/x86_64-linux-gnu/libnccl.so.2.18.5": "",
        });
        assert_eq!(of(linker.clone(), &[]).version, Some(Version(2, 18, 5)));
        let mut both = linker;
        let packages = "/opt/venv/lib/python3.12/site-packages";
        both[format!("{packages}/nvidia/nccl/lib/libnccl.so.2")] = json!("");
        both[format!("{packages}/nvidia_nccl_cu12-2.27.3.dist-info/METADATA")] = json!("");
        let library = of(both, &[("VIRTUAL_ENV", "/opt/venv")]);
        assert_eq!(library.version, Some(Version(2, 27, 3)));
        assert!(
            library.sentences()[1].contains("settings of NCCL 2.18.5"),
            "{:?}",
            library.sentences()
        );
    }

    #[test]
    fn one_that_has_its_version_inside_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("opt/nccl/build/lib");
        std::fs::create_dir_all(&place).expect("folders");
        let mut bytes = vec![0u8; 2 << 20];
        bytes.extend(b"NCCL version %d\0\xffNCCL version 2.19.3+cuda12.3\0");
        std::fs::write(place.join("libnccl.so.2"), bytes).expect("a file");
        let tree = Tree::at(folder.path()).expect("a tree");
        let library = Library::find(&tree, &BTreeMap::new(), None);
        assert_eq!(library.version, Some(Version(2, 19, 3)));
    }

    #[test]
    fn none_or_one_that_does_not_tell_is_taken_for_new() {
        assert!(of(json!({ "/etc/hostname": "a" }), &[]).chooses_gids());
        let mute =
            of(json!({ "/opt/x/libnccl.so.2": "" }), &[("LD_LIBRARY_PATH", "relative:/opt/x")]);
        assert_eq!((mute.path.as_deref(), mute.version), (Some("/opt/x/libnccl.so.2"), None));
        assert!(mute.chooses_gids());
    }
}
