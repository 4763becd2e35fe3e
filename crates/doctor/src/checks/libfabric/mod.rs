//! libfabric, by which EFA devices are used: whether it is there, what it offers, and what links make of it.

mod copies;
mod efa;
mod environment;

use node::Device;

use crate::libfabric::{Answer, Here, Libfabric};
use crate::{Case, Check, Evidence, Finding, Verdict};
use copies::Copies;

pub(super) const CHECK: Check = Check {
    name: "libfabric",
    title: "EFA devices have their driver, and a libfabric that links can use",
    why: "EFA has no queue pairs of the usual kind: MPI, NCCL and Wirelane reach it by libfabric and its \
          provider efa alone, and without one of them go over TCP. Elsewhere libfabric is not needed: \
          verbs is better wherever both can be had.",
    run,
};

fn run(case: &Case<'_>) -> Vec<Finding> {
    let look = Look { case, devices: case.efa_devices(), copies: Copies::find(case.tree) };
    let mut findings = efa::without_driver(case);
    findings.push(look.library());
    findings.extend(look.devices.iter().map(|device| efa::facts(case, device)));
    findings.extend(look.copies.at_odds(case).filter(|_| look.is_needed()));
    findings.extend(environment::look(&look));
    findings
}

/// What the parts of this check look at.
struct Look<'l, 'n> {
    case: &'l Case<'n>,
    devices: Vec<&'n Device>,
    copies: Copies,
}

impl<'l> Look<'l, '_> {
    /// Whether there are devices that only libfabric drives.
    fn has_efa(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Whether devices or settings ask for it.
    fn is_needed(&self) -> bool {
        let asks = |told: &Libfabric| told.provider.is_some() || told.named.is_some();
        self.has_efa() || self.case.libfabric.is_some_and(asks)
    }

    /// libfabric, if it answered.
    fn here(&self) -> Option<&'l Here> {
        self.case.libfabric.and_then(Libfabric::here)
    }

    /// The library, and what links make of it.
    fn library(&self) -> Finding {
        let finding = match self.case.libfabric.map(|told| &told.answer) {
            None => self.not_asked(),
            Some(Answer::NotAsked(why)) => self.not_needed(why),
            Some(Answer::Off { reason, fix }) => self.off(reason, fix),
            Some(Answer::Here(here)) => return self.of(here),
        };
        finding.read_all(self.wishes()).read_all(self.copies.evidence())
    }

    /// What the user says of it.
    fn wishes(&self) -> impl Iterator<Item = Evidence> {
        let named = self.case.libfabric.and_then(|told| told.named.as_deref());
        let provider = self.wish().map(|name| Evidence::new("transport.ofi_provider", name));
        provider.into_iter().chain(named.map(|file| Evidence::new("libfabric by name", file)))
    }

    /// Of another machine only its files are known.
    fn not_asked(&self) -> Finding {
        if !self.has_efa() {
            return self.not_needed("there is no EFA device");
        }
        let told = "what libfabric offers is told on the running machine alone";
        Finding::unknown("host", format!("{told}; {}", self.copies.words()))
    }

    fn not_needed(&self, why: &str) -> Finding {
        let by_verbs = if self.case.devices().is_empty() { "" } else { "; devices go by verbs" };
        let summary = format!("libfabric is not needed: {why}{by_verbs}; {}", self.copies.words());
        Finding::ok("host", summary)
    }

    fn off(&self, reason: &str, fix: &str) -> Finding {
        let (verdict, head) = match (self.has_efa(), self.is_needed()) {
            (true, _) => (Verdict::Problem, "EFA devices cannot be used, libfabric is off"),
            (false, true) => (Verdict::Warning, "libfabric is asked for, and off"),
            (false, false) => (Verdict::Ok, "libfabric is off, and not needed"),
        };
        Finding::new(verdict, "host", format!("{head}: {reason}")).fix(fix)
    }

    /// One that answered.
    fn of(&self, here: &Here) -> Finding {
        let name = format!("libfabric {}", here.version);
        let has = here.providers.join(", ");
        let finding = match &here.links {
            Ok(choice) => {
                let words = format!("{name}: links take {}: {}", choice.provider, choice.why);
                Finding::ok("host", words)
            }
            Err(_) if self.has_efa() && !here.providers.iter().any(|name| name == "efa") => {
                let words = format!("{name} has no provider efa here; it has {has}");
                self.with_fixes(Finding::problem("host", words))
            }
            Err(why) => {
                let words = format!("{name} is here, links do not use it: {why}");
                match self.wish() {
                    Some(_) => self.with_fixes(Finding::warning("host", words)),
                    None => Finding::ok("host", words),
                }
            }
        };
        let finding = finding.read(Evidence::new(&*here.file, format!("{name}, providers {has}")));
        let finding = finding.read(Evidence::new("transport ofi", &here.alone));
        finding.read_all(self.wishes()).read_all(self.hiding())
    }

    /// The provider that the settings name.
    fn wish(&self) -> Option<&'l str> {
        self.case.libfabric.and_then(|told| told.provider.as_deref())
    }

    /// What hides the provider that is wanted here.
    fn hiding(&self) -> Option<Evidence> {
        let wanted = if self.has_efa() { "efa" } else { self.wish()?.split(';').next()? };
        environment::hiding(wanted, self.case)
    }

    /// How a provider comes to be there.
    fn with_fixes(&self, finding: Finding) -> Finding {
        let finding = match self.hiding() {
            Some(_) => finding.fix("FI_PROVIDER hides it: `unset FI_PROVIDER`, or name it there."),
            None if self.has_efa() => finding.fix(
                "Install EFA's own libfabric by its installer (`efa_installer.sh`): a system's may be built \
                 without efa.",
            ),
            None => finding,
        };
        finding.fix("What keeps it away: `FI_LOG_LEVEL=info fi_info -t FI_EP_RDM`, `wirelane doctor rights`.")
    }
}
