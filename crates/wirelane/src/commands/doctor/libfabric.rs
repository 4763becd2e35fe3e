//! What libfabric says to the doctor. It is loaded only where something calls for it: it changes how the process takes
//! memory, and where nobody needs it there is nothing to find out.

use std::path::PathBuf;
use std::time::Duration;

use doctor::Check;
use doctor::libfabric::{Answer, Choice, Libfabric, Library};
use fabric::ofi::{self, Survey};
use node::Tree;

use crate::links::libfabric::{NOT_REQUESTED, choice, has_efa_device};
use crate::output;
use crate::output::Failure;
use crate::settings::Global;
use crate::settings::{self, Settings};
use crate::timeout::with_timeout;

/// What these checks are to know of libfabric on the running machine; of another, nobody here can tell.
pub(super) fn look(
    global: &Global,
    tree: &Tree,
    only: &[&Check],
) -> Result<Option<Libfabric>, Failure> {
    let asked = only.iter().any(|check| check.name == "libfabric");
    if !tree.is_live() || !(asked || only.is_empty()) {
        return Ok(None);
    }
    let calls = Calls::of(&settings(global)?, tree);
    let is_wanted = asked || calls.any() || global.libfabric.is_some();
    let answer = match is_wanted {
        true => ask(global.libfabric.clone(), calls.clone())?,
        false => Answer::NotQueried(NOT_REQUESTED.to_owned()),
    };
    let library_file = global.libfabric.as_ref().map(|file| file.display().to_string());
    Ok(Some(Libfabric { provider: calls.provider, library_file, answer }))
}

/// A file of settings that is wrong is no reason to look at nothing, unless the user has named it.
fn settings(global: &Global) -> Result<Settings, Failure> {
    match Settings::load(global) {
        Ok(loaded) => Ok(loaded.settings),
        Err(failure) if global.config.is_some() => Err(failure),
        Err(failure) => {
            output::note(&format!("{failure}; libfabric is judged by the defaults"));
            Ok(settings::defaults())
        }
    }
}

/// What calls for libfabric here.
#[derive(Debug, Clone)]
struct Calls {
    /// The provider that the settings name.
    provider: Option<String>,
    /// A device that only libfabric drives.
    has_efa: bool,
    /// Whether RDMA may be used.
    rdma: bool,
}

impl Calls {
    fn of(settings: &Settings, tree: &Tree) -> Self {
        let provider = Some(settings.ofi_provider.clone()).filter(|name| !name.is_empty());
        Calls { provider, has_efa: has_efa_device(tree), rdma: settings.enable_rdma }
    }

    fn any(&self) -> bool {
        self.provider.is_some() || self.has_efa
    }

    /// What links go by, or why not by libfabric; as they decide it themselves.
    fn links(&self, survey: &Survey) -> Result<Choice, String> {
        let wish = self.provider.as_deref();
        if !self.any() {
            return Err(NOT_REQUESTED.to_owned());
        }
        if wish.is_none() && !self.rdma {
            return Err("transport.enable_rdma is false".to_owned());
        }
        let choice = ofi::choose(survey, wish).map_err(|refusal| refusal.to_string())?;
        let name = choice.provider.name;
        if ofi::candidates(survey, wish, false).is_err() {
            return Err(match wish {
                None => format!("{name} is software, and lanes of our own do the same with less"),
                Some(_) => {
                    format!("{name} has link-local addresses alone, which no other host can use")
                }
            });
        }
        let caches_registrations = ofi::caches_registrations(&name);
        Ok(Choice { provider: name, why: choice.why, caches_registrations })
    }
}

/// Loads it and asks; a driver that hangs costs its answer and no more.
fn ask(file: Option<PathBuf>, calls: Calls) -> Result<Answer, Failure> {
    let waiting = || "asking libfabric…".to_owned();
    let answer = with_timeout(LIMIT, waiting, move || match ofi::survey(file.as_deref()) {
        Ok(survey) => Answer::Loaded(library(&survey, &calls)),
        Err(off) => Answer::Unavailable { reason: off.to_string(), fix: off.fix().to_owned() },
    })?;
    Ok(answer.unwrap_or_else(|| Answer::Unavailable {
        reason: format!("it has not answered within {} s", LIMIT.as_secs()),
        fix: "see where `fi_info -t FI_EP_RDM` hangs, and what the kernel's log says".to_owned(),
    }))
}

fn library(survey: &Survey, calls: &Calls) -> Library {
    let (major, minor) = survey.version;
    let mut providers: Vec<String> = Vec::new();
    for provider in &survey.providers {
        if !providers.contains(&provider.name) {
            providers.push(provider.name.clone());
        }
    }
    Library {
        version: format!("{major}.{minor}"),
        file: survey.file.display().to_string(),
        providers,
        links: calls.links(survey),
        transport_ofi: choice(survey, calls.provider.as_deref()),
    }
}

/// A healthy library answers within a second, with many devices a few.
const LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(names: &[&str]) -> Survey {
        let provider = |name: &&str| ofi::Provider {
            name: (*name).to_owned(),
            version: (1, 22),
            fabric: "192.0.2.0/24".to_owned(),
            domain: "eth0".to_owned(),
        };
        let providers = names.iter().map(provider).collect();
        Survey { version: (1, 22), abi: "FABRIC_1.7", file: "libfabric.so.1".into(), providers }
    }

    fn links(calls: &Calls, names: &[&str]) -> Result<(String, bool), String> {
        let choice = calls.links(&survey(names))?;
        Ok((format!("{}: {}", choice.provider, choice.why), choice.caches_registrations))
    }

    const EFA: Calls = Calls { provider: None, has_efa: true, rdma: true };

    #[test]
    fn links_take_devices_unasked_and_software_when_it_is_named() {
        let all = ["efa", "efa", "tcp;ofi_rxm", "shm"];
        let why = "efa: the first available of efa, verbs;ofi_rxm, tcp".to_owned();
        assert_eq!(links(&EFA, &all), Ok((why, false)));
        let why = "verbs;ofi_rxm: the first available of efa, verbs;ofi_rxm, tcp".to_owned();
        assert_eq!(links(&EFA, &["verbs;ofi_rxm", "shm"]), Ok((why, true)));
        let named =
            |name: &str| Calls { provider: Some(name.to_owned()), has_efa: false, rdma: true };
        let why = "tcp;ofi_rxm: as requested".to_owned();
        assert_eq!(links(&named("tcp"), &all), Ok((why, false)));
        let why = "no libfabric provider cxi; available: efa, shm, tcp;ofi_rxm";
        assert_eq!(links(&named("cxi"), &all), Err(why.to_owned()));
    }

    #[test]
    fn what_links_do_not_use_has_its_reason() {
        let nobody = Calls { has_efa: false, ..EFA };
        assert_eq!(links(&nobody, &["verbs;ofi_rxm"]), Err(NOT_REQUESTED.to_owned()));
        let why = "tcp;ofi_rxm is software, and lanes of our own do the same with less";
        assert_eq!(links(&EFA, &["tcp;ofi_rxm", "shm"]), Err(why.to_owned()));
        let why = "libfabric has none of the providers efa, verbs;ofi_rxm, tcp; available: shm";
        assert_eq!(links(&EFA, &["shm"]), Err(why.to_owned()));
        let off = Calls { rdma: false, ..EFA };
        assert_eq!(links(&off, &["efa"]), Err("transport.enable_rdma is false".to_owned()));
    }

    #[test]
    fn each_provider_is_told_once() {
        let library = library(&survey(&["efa", "efa", "shm"]), &EFA);
        assert_eq!(
            (&*library.version, library.providers),
            ("1.22", vec!["efa".to_owned(), "shm".to_owned()])
        );
    }
}
