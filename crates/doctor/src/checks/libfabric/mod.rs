//! libfabric, which EFA devices need: whether it can be loaded, its providers, and which one links use.

mod copies;
mod efa;
mod environment;

use node::Device;

use crate::libfabric::{Answer, Libfabric, Library};
use crate::{Check, CheckInput, Evidence, Finding, Severity};
use copies::Copies;

pub(super) const CHECK: Check = Check {
    name: "libfabric",
    title: "EFA devices have a driver, and a libfabric that links can use",
    why: "EFA has no reliable connected queue pairs: MPI, NCCL and Wirelane use it only through libfabric's \
          provider efa, and fall back to TCP without it. Elsewhere libfabric is not needed: verbs is better \
          wherever both are available.",
    run,
};

fn run(input: &CheckInput<'_>) -> Vec<Finding> {
    let copies = Copies::find(input.tree);
    let check = LibfabricCheck { input, devices: input.efa_devices(), copies };
    let mut findings = efa::without_driver(input);
    findings.push(check.library_finding());
    findings.extend(check.devices.iter().map(|device| efa::facts(input, device)));
    findings.extend(check.copies.different_versions(input).filter(|_| check.is_needed()));
    findings.extend(environment::findings(&check));
    findings
}

/// The input of this check.
struct LibfabricCheck<'l, 'n> {
    input: &'l CheckInput<'n>,
    devices: Vec<&'n Device>,
    copies: Copies,
}

impl<'l> LibfabricCheck<'l, '_> {
    /// Whether there are devices that only libfabric drives.
    fn has_efa(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Whether devices or settings need it.
    fn is_needed(&self) -> bool {
        let requested =
            |state: &Libfabric| state.provider.is_some() || state.library_file.is_some();
        self.has_efa() || self.input.libfabric.is_some_and(requested)
    }

    /// The library, if it was loaded.
    fn library(&self) -> Option<&'l Library> {
        self.input.libfabric.and_then(Libfabric::library)
    }

    /// The finding on the library.
    fn library_finding(&self) -> Finding {
        let finding = match self.input.libfabric.map(|state| &state.answer) {
            None => self.not_queried(),
            Some(Answer::NotQueried(why)) => self.not_needed(why),
            Some(Answer::Unavailable { why, fix }) => self.unavailable(why, fix),
            Some(Answer::Loaded(library)) => return self.loaded(library),
        };
        finding.evidence_all(self.requested_settings()).evidence_all(self.copies.evidence())
    }

    /// The user's settings as evidence.
    fn requested_settings(&self) -> impl Iterator<Item = Evidence> {
        let file = self.input.libfabric.and_then(|state| state.library_file.as_deref());
        let provider = self.requested_provider();
        let provider = provider.map(|name| Evidence::new("transport.ofi_provider", name));
        provider.into_iter().chain(file.map(|file| Evidence::new("libfabric by name", file)))
    }

    /// In a snapshot only files are known.
    fn not_queried(&self) -> Finding {
        if !self.has_efa() {
            return self.not_needed("there is no EFA device");
        }
        let why = "libfabric's providers are known only on the running machine";
        Finding::unknown("host", format!("{why}; {}", self.copies.summary()))
    }

    fn not_needed(&self, why: &str) -> Finding {
        let verbs = if self.input.devices().is_empty() { "" } else { "; devices use verbs" };
        let summary = format!("libfabric is not needed: {why}{verbs}; {}", self.copies.summary());
        Finding::ok("host", summary)
    }

    fn unavailable(&self, why: &str, fix: &str) -> Finding {
        let (severity, head) = match (self.has_efa(), self.is_needed()) {
            (true, _) => (Severity::Problem, "EFA devices need libfabric, which is unavailable"),
            (false, true) => (Severity::Warning, "libfabric is requested, but unavailable"),
            (false, false) => (Severity::Ok, "libfabric is unavailable, but not needed"),
        };
        Finding::new(severity, "host", format!("{head}: {why}")).fix(fix)
    }

    /// The finding on a loaded library.
    fn loaded(&self, library: &Library) -> Finding {
        let name = format!("libfabric {}", library.version);
        let providers = library.providers.join(", ");
        let finding = match &library.links {
            Ok(choice) => {
                let summary = format!("{name}: links use {}: {}", choice.provider, choice.why);
                Finding::ok("host", summary)
            }
            Err(_) if self.has_efa() && !library.providers.iter().any(|name| name == "efa") => {
                let summary = format!("{name} has no provider efa; it has {providers}");
                self.with_fixes(Finding::problem("host", summary))
            }
            Err(why) => {
                let summary = format!("{name} is available, but links do not use it: {why}");
                match self.requested_provider() {
                    Some(_) => self.with_fixes(Finding::warning("host", summary)),
                    None => Finding::ok("host", summary),
                }
            }
        };
        finding
            .evidence(Evidence::new(&*library.file, format!("{name}, providers {providers}")))
            .evidence(Evidence::new("transport ofi", &library.transport_ofi))
            .evidence_all(self.requested_settings())
            .evidence_all(self.hiding())
    }

    /// The provider that the settings name.
    fn requested_provider(&self) -> Option<&'l str> {
        self.input.libfabric.and_then(|state| state.provider.as_deref())
    }

    /// The variable that hides the provider that is needed here, as evidence.
    fn hiding(&self) -> Option<Evidence> {
        let provider =
            if self.has_efa() { "efa" } else { self.requested_provider()?.split(';').next()? };
        environment::hiding(provider, self.input)
    }

    /// Adds fixes for a missing provider.
    fn with_fixes(&self, finding: Finding) -> Finding {
        let finding = match self.hiding() {
            Some(_) => finding.fix("FI_PROVIDER hides it: `unset FI_PROVIDER`, or add it there."),
            None if self.has_efa() => finding.fix(
                "Install EFA's own libfabric with its installer (`efa_installer.sh`): the distribution's may be built \
                 without efa.",
            ),
            None => finding,
        };
        finding.fix("To find the reason: `FI_LOG_LEVEL=info fi_info -t FI_EP_RDM`, `wirelane doctor permissions`.")
    }
}
