//! Queries libfabric for the doctor. It is loaded only if something needs it: it changes how the process allocates
//! memory.

use std::path::PathBuf;
use std::time::Duration;

use doctor::Check;
use doctor::libfabric::{Answer, Choice, Libfabric, Library};
use fabric::ofi::{self, ProviderList};
use node::Tree;

use crate::links::libfabric::{NOT_REQUESTED, choice, has_efa_device};
use crate::output;
use crate::output::Failure;
use crate::settings::Global;
use crate::settings::{self, Settings};
use crate::timeout::with_timeout;

/// The state of libfabric for these checks; `None` if they do not need it, or for another machine.
pub(super) fn query(
    global: &Global,
    tree: &Tree,
    only: &[&Check],
) -> Result<Option<Libfabric>, Failure> {
    let is_named = only.iter().any(|check| check.name == "libfabric");
    if !tree.is_live() || !(is_named || only.is_empty()) {
        return Ok(None);
    }
    let uses = Uses::of(&settings(global)?, tree);
    let is_needed = is_named || uses.any() || global.libfabric.is_some();
    let answer = match is_needed {
        true => list_providers(global.libfabric.clone(), uses.clone())?,
        false => Answer::NotQueried(NOT_REQUESTED.to_owned()),
    };
    let library_file = global.libfabric.as_ref().map(|file| file.display().to_string());
    Ok(Some(Libfabric { provider: uses.provider, library_file, answer }))
}

/// An invalid settings file is an error only if it was given with --config.
fn settings(global: &Global) -> Result<Settings, Failure> {
    match Settings::load(global) {
        Ok(loaded) => Ok(loaded.settings),
        Err(failure) if global.config.is_some() => Err(failure),
        Err(failure) => {
            output::note(&format!("{failure}; libfabric is checked with the default settings"));
            Ok(settings::defaults())
        }
    }
}

/// What needs libfabric on this machine.
#[derive(Debug, Clone)]
struct Uses {
    /// The provider that the settings name.
    provider: Option<String>,
    /// Whether there is an EFA device, which only libfabric can use.
    has_efa: bool,
    /// Whether RDMA may be used.
    rdma: bool,
}

impl Uses {
    fn of(settings: &Settings, tree: &Tree) -> Self {
        let provider = Some(settings.ofi_provider.clone()).filter(|name| !name.is_empty());
        Uses { provider, has_efa: has_efa_device(tree), rdma: settings.enable_rdma }
    }

    fn any(&self) -> bool {
        self.provider.is_some() || self.has_efa
    }

    /// The provider that links use, or why they do not use libfabric; by the same rules as links.
    fn links(&self, listed: &ProviderList) -> Result<Choice, String> {
        let requested = self.provider.as_deref();
        if !self.any() {
            return Err(NOT_REQUESTED.to_owned());
        }
        if requested.is_none() && !self.rdma {
            return Err("transport.enable_rdma is false".to_owned());
        }
        let choice = ofi::choose(listed, requested).map_err(|refusal| refusal.to_string())?;
        let name = choice.provider.name;
        if ofi::candidates(listed, requested, false).is_err() {
            return Err(match requested {
                None => format!("{name} is software, which our own lanes replace at lower cost"),
                Some(_) => {
                    format!("{name} has only link-local addresses, which other hosts cannot use")
                }
            });
        }
        let caches_registrations = ofi::caches_registrations(&name);
        Ok(Choice { provider: name, why: choice.why, caches_registrations })
    }
}

/// Loads and queries it, with a timeout for drivers that hang.
fn list_providers(file: Option<PathBuf>, uses: Uses) -> Result<Answer, Failure> {
    let waiting = || "querying libfabric…".to_owned();
    let answer =
        with_timeout(TIMEOUT, waiting, move || match ofi::list_providers(file.as_deref()) {
            Ok(listed) => Answer::Loaded(library(&listed, &uses)),
            Err(off) => Answer::Unavailable { why: off.to_string(), fix: off.fix().to_owned() },
        })?;
    Ok(answer.unwrap_or_else(|| Answer::Unavailable {
        why: format!("no answer within {} s", TIMEOUT.as_secs()),
        fix: "find out where `fi_info -t FI_EP_RDM` hangs, and see the kernel log".to_owned(),
    }))
}

fn library(listed: &ProviderList, uses: &Uses) -> Library {
    let (major, minor) = listed.version;
    let mut providers: Vec<String> = Vec::new();
    for provider in &listed.providers {
        if !providers.contains(&provider.name) {
            providers.push(provider.name.clone());
        }
    }
    Library {
        version: format!("{major}.{minor}"),
        file: listed.file.display().to_string(),
        providers,
        links: uses.links(listed),
        transport_ofi: choice(listed, uses.provider.as_deref()),
    }
}

/// A healthy library answers within a second, or a few with many devices.
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> ProviderList {
        let provider = |name: &&str| ofi::Provider {
            name: (*name).to_owned(),
            version: (1, 22),
            fabric: "192.0.2.0/24".to_owned(),
            domain: "eth0".to_owned(),
        };
        let providers = names.iter().map(provider).collect();
        ProviderList {
            version: (1, 22),
            abi: "FABRIC_1.7",
            file: "libfabric.so.1".into(),
            providers,
        }
    }

    fn links(uses: &Uses, names: &[&str]) -> Result<(String, bool), String> {
        let choice = uses.links(&found(names))?;
        Ok((format!("{}: {}", choice.provider, choice.why), choice.caches_registrations))
    }

    const EFA: Uses = Uses { provider: None, has_efa: true, rdma: true };

    #[test]
    fn links_use_devices_by_default_and_software_on_request() {
        let all = ["efa", "efa", "tcp;ofi_rxm", "shm"];
        let why = "efa: the first available of efa, verbs;ofi_rxm, tcp".to_owned();
        assert_eq!(links(&EFA, &all), Ok((why, false)));
        let why = "verbs;ofi_rxm: the first available of efa, verbs;ofi_rxm, tcp".to_owned();
        assert_eq!(links(&EFA, &["verbs;ofi_rxm", "shm"]), Ok((why, true)));
        let named =
            |name: &str| Uses { provider: Some(name.to_owned()), has_efa: false, rdma: true };
        let why = "tcp;ofi_rxm: as requested".to_owned();
        assert_eq!(links(&named("tcp"), &all), Ok((why, false)));
        let why = "no libfabric provider cxi; available: efa, shm, tcp;ofi_rxm";
        assert_eq!(links(&named("cxi"), &all), Err(why.to_owned()));
    }

    #[test]
    fn unused_providers_have_their_reason() {
        let no_use = Uses { has_efa: false, ..EFA };
        assert_eq!(links(&no_use, &["verbs;ofi_rxm"]), Err(NOT_REQUESTED.to_owned()));
        let why = "tcp;ofi_rxm is software, which our own lanes replace at lower cost";
        assert_eq!(links(&EFA, &["tcp;ofi_rxm", "shm"]), Err(why.to_owned()));
        let why = "libfabric has none of the providers efa, verbs;ofi_rxm, tcp; available: shm";
        assert_eq!(links(&EFA, &["shm"]), Err(why.to_owned()));
        let off = Uses { rdma: false, ..EFA };
        assert_eq!(links(&off, &["efa"]), Err("transport.enable_rdma is false".to_owned()));
    }

    #[test]
    fn each_provider_is_listed_once() {
        let library = library(&found(&["efa", "efa", "shm"]), &EFA);
        assert_eq!(
            (&*library.version, library.providers),
            ("1.22", vec!["efa".to_owned(), "shm".to_owned()])
        );
    }
}
