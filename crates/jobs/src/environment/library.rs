//! Which NCCL a job will load. A machine may have several: the linker's, and that of a torch wheel.

use std::collections::BTreeMap;

use node::{Reading, Tree};
use serde::Serialize;

use super::version::Version;

/// The NCCL that is assumed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Library {
    /// Its version; an unknown one is assumed to select GIDs by address.
    pub version: Option<Version>,
    /// Its path, if it was found and not given by the user.
    pub path: Option<String>,
    /// Others that were found, with their versions.
    pub others: BTreeMap<String, Option<Version>>,
}

impl Library {
    /// The version given by the user, or the library that a job would find first.
    pub(super) fn find(
        tree: &Tree,
        environment: &BTreeMap<String, String>,
        given: Option<Version>,
    ) -> Self {
        let mut found = search(tree, environment);
        if given.is_some() {
            return Library { version: given, path: None, others: found.into_iter().collect() };
        }
        let first = if found.is_empty() { None } else { Some(found.remove(0)) };
        let version = first
            .as_ref()
            .and_then(|(path, version)| version.or_else(|| embedded_version(tree, path)));
        Library { version, path: first.map(|(path, _)| path), others: found.into_iter().collect() }
    }

    /// Whether it selects GIDs by family and protocol version.
    pub(super) fn selects_gids_by_address(&self) -> bool {
        self.version.is_none_or(|version| version >= Version::SELECTS_GIDS_BY_ADDRESS)
    }

    /// A note on the assumed NCCL; a second one if another library was found that needs other settings.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = vec![match (&self.path, self.version) {
            (Some(path), Some(version)) => format!("NCCL {version} is assumed: {path}"),
            (Some(path), None) => {
                format!("the version of {path} is unknown: NCCL 2.21 or newer is assumed")
            }
            (None, Some(version)) => format!("NCCL {version}, as given"),
            (None, None) => "no NCCL is found: 2.21 or newer is assumed".to_owned(),
        }];
        let differs = |version: &Option<Version>| {
            version.is_some_and(|version| {
                (version >= Version::SELECTS_GIDS_BY_ADDRESS) != self.selects_gids_by_address()
            })
        };
        if let Some((path, Some(version))) =
            self.others.iter().find(|(_, version)| differs(version))
        {
            notes.push(format!(
                "{path} is NCCL {version}, which needs other settings: if the job loads that one, request the settings of NCCL {version}"
            ));
        }
        notes
    }
}

/// In the order in which a job finds them: LD_LIBRARY_PATH, torch wheels, the linker's folders.
fn search(tree: &Tree, environment: &BTreeMap<String, String>) -> Vec<(String, Option<Version>)> {
    let mut found = Vec::new();
    let listed = environment.get("LD_LIBRARY_PATH").map_or("", String::as_str);
    let listed = listed.split(':').filter(|folder| folder.starts_with('/')).take(MAX_FOLDERS);
    found.extend(listed.filter_map(|folder| in_folder(tree, folder)));
    found.extend(wheels(tree, environment));
    found.extend(LINKER_FOLDERS.iter().filter_map(|folder| in_folder(tree, folder)));
    let mut seen = Vec::new();
    found.retain(|(path, _): &(String, _)| {
        let is_new = !seen.contains(path);
        seen.push(path.clone());
        is_new
    });
    found
}

/// `libnccl.so.2` is a link to a file that has its version in its name.
fn in_folder(tree: &Tree, folder: &str) -> Option<(String, Option<Version>)> {
    let Reading::Value(real) = tree.real(&format!("{folder}/libnccl.so.2")) else { return None };
    let version = real.rsplit_once("libnccl.so.").and_then(|(_, version)| version.parse().ok());
    Some((real, version))
}

/// A wheel's file has no version in its name; the folder of its metadata has.
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

/// A library contains the string `NCCL version 2.21.5+cuda12.4`; some of its messages have the same prefix.
fn embedded_version(tree: &Tree, path: &str) -> Option<Version> {
    let strings = tree.after(path, "NCCL version ");
    strings.iter().find_map(|text| text.split('+').next()?.parse().ok())
}

/// The linker's folders of distributions, CUDA and containers.
const LINKER_FOLDERS: [&str; 7] = [
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
    fn the_version_is_in_the_file_name_or_in_the_wheels_folder() {
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
        assert!(library.notes()[1].contains("settings of NCCL 2.18.5"), "{:?}", library.notes());
    }

    #[test]
    fn the_version_may_be_only_in_the_file() {
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
    fn a_missing_or_unknown_version_is_assumed_to_be_new() {
        assert!(of(json!({ "/etc/hostname": "a" }), &[]).selects_gids_by_address());
        let unknown =
            of(json!({ "/opt/x/libnccl.so.2": "" }), &[("LD_LIBRARY_PATH", "relative:/opt/x")]);
        assert_eq!((unknown.path.as_deref(), unknown.version), (Some("/opt/x/libnccl.so.2"), None));
        assert!(unknown.selects_gids_by_address());
    }
}
