//! Chooses a provider: the requested one, or else the best available.

use std::fmt;

use super::list_providers::{Provider, ProviderList};
use super::usable_provider::UsableProvider;

/// A provider, and why it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The provider to open.
    pub provider: Provider,
    /// The reason for the choice.
    pub why: String,
}

/// Why no provider was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    requested: Option<String>,
    available: Vec<String>,
}

/// Chooses the provider of this name (`tcp` also matches `tcp;ofi_rxm`, its name in older libraries), or else
/// the first available of `efa`, `verbs;ofi_rxm` and `tcp`. `shm` is used only on request: the shm transport is faster.
pub fn choose(list: &ProviderList, requested: Option<&str>) -> Result<Choice, Refusal> {
    let first = |name: &str| list.providers.iter().find(|provider| is_named(provider, name));
    let found = match requested {
        Some(name) => first(name).map(|provider| (provider, "as requested".to_owned())),
        None => ORDER.iter().find_map(|name| Some((first(name)?, default_reason()))),
    };
    let (provider, why) = found.ok_or_else(|| Refusal::new(list, requested))?;
    Ok(Choice { provider: provider.clone(), why })
}

/// All providers that a link may use, the best first: those of this name, or else those that
/// [`choose()`] considers. Without `software`, software providers are excluded: the shm and tcp transports cost less.
pub fn candidates(
    list: &ProviderList,
    requested: Option<&str>,
    software: bool,
) -> Result<Vec<Provider>, Refusal> {
    let names: &[&str] = requested.as_ref().map_or(&ORDER, std::slice::from_ref);
    let matching = |name: &&str| {
        let is_candidate = |provider: &&Provider| {
            let usable = UsableProvider::of(provider);
            let allowed = requested.is_some() || software || usable.is_rdma();
            is_named(provider, name) && allowed && !usable.is_link_local()
        };
        list.providers.iter().filter(is_candidate).cloned().collect::<Vec<_>>()
    };
    let found: Vec<Provider> = names.iter().flat_map(matching).collect();
    match found.is_empty() {
        true => Err(Refusal::new(list, requested)),
        false => Ok(found),
    }
}

impl Refusal {
    fn new(list: &ProviderList, requested: Option<&str>) -> Self {
        let mut available: Vec<String> =
            list.providers.iter().map(|provider| provider.name.clone()).collect();
        available.sort();
        available.dedup();
        Refusal { requested: requested.map(str::to_owned), available }
    }
}

fn is_named(provider: &Provider, name: &str) -> bool {
    let core = provider.name.split(';').next().unwrap_or_default();
    provider.name == name || (core == name && provider.name == format!("{name};ofi_rxm"))
}

fn default_reason() -> String {
    format!("the first available of {}", ORDER.join(", "))
}

/// The best first.
const ORDER: [&str; 3] = ["efa", "verbs;ofi_rxm", "tcp"];

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let available = match self.available.is_empty() {
            true => "none".to_owned(),
            false => self.available.join(", "),
        };
        match &self.requested {
            Some(name) => write!(f, "no libfabric provider {name}; available: {available}"),
            None => {
                let order = ORDER.join(", ");
                write!(f, "libfabric has none of the providers {order}; available: {available}")
            }
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> ProviderList {
        let provider = |name: &&str| Provider {
            name: (*name).to_owned(),
            version: (1, 17),
            fabric: "net".to_owned(),
            domain: "lo".to_owned(),
        };
        let providers = names.iter().map(provider).collect();
        ProviderList {
            version: (1, 17),
            abi: "FABRIC_1.3",
            file: "libfabric.so.1".into(),
            providers,
        }
    }

    fn name(names: &[&str], requested: Option<&str>) -> Result<String, String> {
        let choice = choose(&list(names), requested).map_err(|refusal| refusal.to_string())?;
        Ok(choice.provider.name)
    }

    #[test]
    fn the_best_is_chosen_and_shm_only_on_request() {
        let all = ["shm", "tcp;ofi_rxm", "verbs;ofi_rxm", "efa"];
        assert_eq!(name(&all, None).unwrap(), "efa");
        assert_eq!(name(&all[..3], None).unwrap(), "verbs;ofi_rxm");
        assert_eq!(name(&all[..2], None).unwrap(), "tcp;ofi_rxm");
        assert_eq!(name(&["shm", "tcp"], None).unwrap(), "tcp");
        let why = name(&["shm"], None).unwrap_err();
        let expected =
            "libfabric has none of the providers efa, verbs;ofi_rxm, tcp; available: shm";
        assert_eq!(why, expected);
        let why = choose(&list(&all[..3]), None).unwrap().why;
        assert_eq!(why, "the first available of efa, verbs;ofi_rxm, tcp");
    }

    #[test]
    fn a_request_is_met_or_refused() {
        let available = ["udp;ofi_rxd", "tcp;ofi_rxm", "shm"];
        assert_eq!(name(&available, Some("shm")).unwrap(), "shm");
        assert_eq!(name(&available, Some("tcp")).unwrap(), "tcp;ofi_rxm");
        assert_eq!(name(&available, Some("tcp;ofi_rxm")).unwrap(), "tcp;ofi_rxm");
        assert!(name(&available, Some("udp")).is_err(), "ofi_rxd is another provider");
        let why = name(&available, Some("efa")).unwrap_err();
        let expected = "no libfabric provider efa; available: shm, tcp;ofi_rxm, udp;ofi_rxd";
        assert_eq!(why, expected);
    }

    #[test]
    fn a_link_uses_software_only_on_request() {
        let names = |requested, software| -> Result<Vec<String>, Refusal> {
            let list = list(&["shm", "tcp;ofi_rxm", "verbs;ofi_rxm", "efa", "efa"]);
            let found = candidates(&list, requested, software)?;
            Ok(found.into_iter().map(|provider| provider.name).collect())
        };
        assert_eq!(names(None, false).unwrap(), ["efa", "efa", "verbs;ofi_rxm"]);
        assert_eq!(names(None, true).unwrap(), ["efa", "efa", "verbs;ofi_rxm", "tcp;ofi_rxm"]);
        assert_eq!(names(Some("tcp"), false).unwrap(), ["tcp;ofi_rxm"]);
        assert_eq!(names(Some("shm"), false).unwrap(), ["shm"]);
        assert!(names(Some("cxi"), true).is_err());
    }
}
