//! The copies of libfabric on a disk, in the order in which the program looks for them.

use node::{Seen, Tree};

use crate::libfabric::Libfabric;
use crate::{Case, Evidence, Finding};

/// Those that are found, each once.
pub(super) struct Copies(Vec<Installed>);

struct Installed {
    /// The file itself: `/usr/lib64/libfabric.so.1.20.0`.
    file: String,
    /// What its package calls itself, where it says so: `1.22.0amzn4.0`.
    version: Option<String>,
}

impl Copies {
    /// EFA's own, then those in folders of the linker. A process's `LD_LIBRARY_PATH` is not known here.
    pub(super) fn find(tree: &Tree) -> Self {
        let mut found: Vec<Installed> = Vec::new();
        for copy in FOLDERS.iter().filter_map(|folder| Installed::find(tree, folder)) {
            if !found.iter().any(|known| known.file == copy.file) {
                found.push(copy);
            }
        }
        Copies(found)
    }

    /// Which there is, in a few words.
    pub(super) fn words(&self) -> String {
        match self.0.first() {
            Some(first) => format!("{} is installed", first.words()),
            None => "none is seen in the usual folders".to_owned(),
        }
    }

    pub(super) fn evidence(&self) -> Vec<Evidence> {
        if self.0.is_empty() {
            return vec![Evidence::new(FOLDERS.join(", "), "no libfabric.so.1")];
        }
        self.0.iter().map(Installed::evidence).collect()
    }

    /// Several that are not the same: which is taken. Other programs may take another, and a process with both has two of
    /// everything that libfabric does to it.
    pub(super) fn at_odds(&self, case: &Case<'_>) -> Option<Finding> {
        let loaded = case.libfabric.and_then(Libfabric::here).map(|here| &here.file);
        let loaded = loaded.and_then(|file| case.tree.real(file).into_value());
        let is_loaded = |copy: &&Installed| Some(&copy.file) == loaded.as_ref();
        let taken = self.0.iter().find(is_loaded).or(self.0.first())?;
        let others: Vec<String> =
            self.0.iter().filter(|other| other.differs(taken)).map(Installed::words).collect();
        if others.is_empty() {
            return None;
        }
        let summary =
            format!("several libfabrics: {} is taken, not {}", taken.words(), others.join(", "));
        let finding = Finding::note("host", summary).read_all(self.evidence());
        Some(finding.fix(
            "Let all programs of a job take one, since a process that loads two fails in odd ways: remove the other, or name \
             one by `--libfabric FILE` here and by LD_LIBRARY_PATH for others.",
        ))
    }
}

impl Installed {
    fn find(tree: &Tree, folder: &str) -> Option<Self> {
        let Seen::Value(file) = tree.real(&format!("{folder}/libfabric.so.1")) else { return None };
        let package = tree.text(&format!("{folder}/pkgconfig/libfabric.pc")).into_value();
        let version = package.as_deref().and_then(|text| {
            text.lines().find_map(|line| Some(line.strip_prefix("Version:")?.trim().to_owned()))
        });
        Some(Installed { file, version })
    }

    fn words(&self) -> String {
        let version = self.version.as_ref().map(|version| format!(" ({version})"));
        format!("{}{}", self.file, version.unwrap_or_default())
    }

    fn evidence(&self) -> Evidence {
        let version = self.version.as_ref().map(|version| format!("version {version}"));
        Evidence::new(&*self.file, version.unwrap_or_else(|| "is there".to_owned()))
    }

    /// The number in a file's name is that of the interface, and grows with every release.
    fn differs(&self, other: &Installed) -> bool {
        let name = |copy: &Installed| copy.file.rsplit('/').next().map(str::to_owned);
        match (&self.version, &other.version) {
            (Some(one), Some(other)) => one != other,
            _ => name(self) != name(other),
        }
    }
}

/// Where the program looks first, then where distributions have libraries.
const FOLDERS: [&str; 7] = [
    "/opt/amazon/efa/lib",
    "/opt/amazon/efa/lib64",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];
