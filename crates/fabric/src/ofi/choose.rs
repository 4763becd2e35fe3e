//! Which provider: the one that is wished for, else the best that is here.

use std::fmt;

use super::survey::{Provider, Survey};
use super::usable_provider::UsableProvider;

/// A provider, and why it was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What to open.
    pub provider: Provider,
    /// In words.
    pub why: String,
}

/// Why none was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    wish: Option<String>,
    here: Vec<String>,
}

/// Takes the provider of this name (`tcp` is also `tcp;ofi_rxm`, which is how older libraries have it), else
/// the first of `efa`, `verbs;ofi_rxm` and `tcp` that is here. `shm` must be named: lanes of our own are faster.
pub fn choose(survey: &Survey, wish: Option<&str>) -> Result<Choice, Refusal> {
    let first = |name: &str| survey.providers.iter().find(|provider| is_named(provider, name));
    let found = match wish {
        Some(name) => first(name).map(|provider| (provider, "it was asked for".to_owned())),
        None => ORDER.iter().find_map(|name| Some((first(name)?, reason(name)))),
    };
    let (provider, why) = found.ok_or_else(|| Refusal::new(survey, wish))?;
    Ok(Choice { provider: provider.clone(), why })
}

/// Everything that a link may go by, the best first: all of the provider of this name, else all of those that
/// [`choose()`] knows. Those that are software only with `software`: lanes of our own do the same with less.
pub fn candidates(
    survey: &Survey,
    wish: Option<&str>,
    software: bool,
) -> Result<Vec<Provider>, Refusal> {
    let wanted: &[&str] = wish.as_ref().map_or(&ORDER, std::slice::from_ref);
    let of = |name: &&str| {
        let is_wanted = |provider: &&Provider| {
            let usable = UsableProvider::of(provider);
            let fits = wish.is_some() || software || usable.is_rdma();
            is_named(provider, name) && fits && !usable.is_link_local()
        };
        survey.providers.iter().filter(is_wanted).cloned().collect::<Vec<_>>()
    };
    let found: Vec<Provider> = wanted.iter().flat_map(of).collect();
    match found.is_empty() {
        true => Err(Refusal::new(survey, wish)),
        false => Ok(found),
    }
}

impl Refusal {
    fn new(survey: &Survey, wish: Option<&str>) -> Self {
        let mut here: Vec<String> =
            survey.providers.iter().map(|provider| provider.name.clone()).collect();
        here.sort();
        here.dedup();
        Refusal { wish: wish.map(str::to_owned), here }
    }
}

fn is_named(provider: &Provider, name: &str) -> bool {
    let core = provider.name.split(';').next().unwrap_or_default();
    provider.name == name || (core == name && provider.name == format!("{name};ofi_rxm"))
}

fn reason(name: &str) -> String {
    match ORDER.iter().position(|known| *known == name) {
        Some(0) | None => format!("{name} is here, and best"),
        Some(rank) => format!("{name} is here, and {} is not", ORDER[..rank].join(" or ")),
    }
}

/// The best first.
const ORDER: [&str; 3] = ["efa", "verbs;ofi_rxm", "tcp"];

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = if self.here.is_empty() { "none".to_owned() } else { self.here.join(", ") };
        match &self.wish {
            Some(wish) => write!(f, "libfabric has no provider {wish} here; it has {here}"),
            None => write!(f, "libfabric has none of {} here; it has {here}", ORDER.join(", ")),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(names: &[&str]) -> Survey {
        let provider = |name: &&str| Provider {
            name: (*name).to_owned(),
            version: (1, 17),
            fabric: "net".to_owned(),
            domain: "lo".to_owned(),
        };
        let providers = names.iter().map(provider).collect();
        Survey { version: (1, 17), abi: "FABRIC_1.3", file: "libfabric.so.1".into(), providers }
    }

    fn name(names: &[&str], wish: Option<&str>) -> Result<String, String> {
        let choice = choose(&survey(names), wish).map_err(|refusal| refusal.to_string())?;
        Ok(choice.provider.name)
    }

    #[test]
    fn the_best_is_taken_and_shm_never_unasked() {
        let all = ["shm", "tcp;ofi_rxm", "verbs;ofi_rxm", "efa"];
        assert_eq!(name(&all, None).unwrap(), "efa");
        assert_eq!(name(&all[..3], None).unwrap(), "verbs;ofi_rxm");
        assert_eq!(name(&all[..2], None).unwrap(), "tcp;ofi_rxm");
        assert_eq!(name(&["shm", "tcp"], None).unwrap(), "tcp");
        let why = name(&["shm"], None).unwrap_err();
        assert_eq!(why, "libfabric has none of efa, verbs;ofi_rxm, tcp here; it has shm");
        let why = choose(&survey(&all[..3]), None).unwrap().why;
        assert_eq!(why, "verbs;ofi_rxm is here, and efa is not");
    }

    #[test]
    fn a_wish_is_met_or_refused() {
        let here = ["udp;ofi_rxd", "tcp;ofi_rxm", "shm"];
        assert_eq!(name(&here, Some("shm")).unwrap(), "shm");
        assert_eq!(name(&here, Some("tcp")).unwrap(), "tcp;ofi_rxm");
        assert_eq!(name(&here, Some("tcp;ofi_rxm")).unwrap(), "tcp;ofi_rxm");
        assert!(name(&here, Some("udp")).is_err(), "another provider than was asked for");
        let why = name(&here, Some("efa")).unwrap_err();
        let expected = "libfabric has no provider efa here; it has shm, tcp;ofi_rxm, udp;ofi_rxd";
        assert_eq!(why, expected);
    }

    #[test]
    fn a_link_uses_software_only_if_it_is_asked_for() {
        let names = |wish, software| -> Result<Vec<String>, Refusal> {
            let survey = survey(&["shm", "tcp;ofi_rxm", "verbs;ofi_rxm", "efa", "efa"]);
            let found = candidates(&survey, wish, software)?;
            Ok(found.into_iter().map(|provider| provider.name).collect())
        };
        assert_eq!(names(None, false).unwrap(), ["efa", "efa", "verbs;ofi_rxm"]);
        assert_eq!(names(None, true).unwrap(), ["efa", "efa", "verbs;ofi_rxm", "tcp;ofi_rxm"]);
        assert_eq!(names(Some("tcp"), false).unwrap(), ["tcp;ofi_rxm"]);
        assert_eq!(names(Some("shm"), false).unwrap(), ["shm"]);
        assert!(names(Some("cxi"), true).is_err());
    }
}
