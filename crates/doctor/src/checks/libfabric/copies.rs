//! Installed copies of libfabric, in the order in which the program searches for them.

use node::{Reading, Tree};

use crate::libfabric::Libfabric;
use crate::{CheckInput, Evidence, Finding};

/// The copies that were found, without duplicates.
pub(super) struct Copies(Vec<InstalledCopy>);

struct InstalledCopy {
    /// The file itself: `/usr/lib64/libfabric.so.1.20.0`.
    file: String,
    /// The version of its package, if known: `1.22.0amzn4.0`.
    version: Option<String>,
}

impl Copies {
    /// EFA's own, then those in the linker's folders. The `LD_LIBRARY_PATH` of processes is not known here.
    pub(super) fn find(tree: &Tree) -> Self {
        let mut found: Vec<InstalledCopy> = Vec::new();
        for copy in FOLDERS.iter().filter_map(|folder| InstalledCopy::find(tree, folder)) {
            if !found.iter().any(|known| known.file == copy.file) {
                found.push(copy);
            }
        }
        Copies(found)
    }

    /// The first copy, for summaries.
    pub(super) fn summary(&self) -> String {
        match self.0.first() {
            Some(first) => format!("{} is installed", first.name()),
            None => "not found in the usual folders".to_owned(),
        }
    }

    pub(super) fn evidence(&self) -> Vec<Evidence> {
        if self.0.is_empty() {
            return vec![Evidence::new(FOLDERS.join(", "), "no libfabric.so.1")];
        }
        self.0.iter().map(InstalledCopy::evidence).collect()
    }

    /// A note if there are different versions. Other programs may use another one, and a process must not load two.
    pub(super) fn different_versions(&self, input: &CheckInput<'_>) -> Option<Finding> {
        let loaded = input.libfabric.and_then(Libfabric::library).map(|library| &library.file);
        let loaded = loaded.and_then(|file| input.tree.real(file).into_value());
        let is_loaded = |copy: &&InstalledCopy| Some(&copy.file) == loaded.as_ref();
        let used = self.0.iter().find(is_loaded).or(self.0.first())?;
        let others: Vec<String> =
            self.0.iter().filter(|other| other.differs(used)).map(InstalledCopy::name).collect();
        if others.is_empty() {
            return None;
        }
        let summary =
            format!("several libfabrics: uses {}, not {}", used.name(), others.join(", "));
        let finding = Finding::note("host", summary).evidence_all(self.evidence());
        Some(finding.fix(
            "Use the same copy in all programs of a job, since a process that loads two fails: remove the others, or select \
             one with `--libfabric FILE` here and with LD_LIBRARY_PATH for other programs.",
        ))
    }
}

impl InstalledCopy {
    fn find(tree: &Tree, folder: &str) -> Option<Self> {
        let Reading::Value(file) = tree.real(&format!("{folder}/libfabric.so.1")) else {
            return None;
        };
        let package = tree.text(&format!("{folder}/pkgconfig/libfabric.pc")).into_value();
        let version = package.as_deref().and_then(|text| {
            text.lines().find_map(|line| Some(line.strip_prefix("Version:")?.trim().to_owned()))
        });
        Some(InstalledCopy { file, version })
    }

    fn name(&self) -> String {
        let version = self.version.as_ref().map(|version| format!(" ({version})"));
        format!("{}{}", self.file, version.unwrap_or_default())
    }

    fn evidence(&self) -> Evidence {
        let version = self.version.as_ref().map(|version| format!("version {version}"));
        Evidence::new(&*self.file, version.unwrap_or_else(|| "exists".to_owned()))
    }

    /// By version; if it is not known, by the number in the file's name, which grows with every release.
    fn differs(&self, other: &InstalledCopy) -> bool {
        let name = |copy: &InstalledCopy| copy.file.rsplit('/').next().map(str::to_owned);
        match (&self.version, &other.version) {
            (Some(one), Some(other)) => one != other,
            _ => name(self) != name(other),
        }
    }
}

/// Where the program searches first, then where distributions install libraries.
const FOLDERS: [&str; 7] = [
    "/opt/amazon/efa/lib",
    "/opt/amazon/efa/lib64",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];
