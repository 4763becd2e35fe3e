//! Which providers of two ends belong together.

use super::usable_provider::UsableProvider;

/// Two providers, by their places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) ours: usize,
    pub(crate) theirs: usize,
    pub(crate) why: String,
}

/// Those of the first provider of ours that the peer has too: of one network, else one after the other.
/// Devices are rails, each once; of software one is enough. The error: why there are none.
pub(crate) fn pair(
    ours: &[UsableProvider],
    theirs: &[UsableProvider],
    most: usize,
    one_host: bool,
) -> Result<Vec<Pair>, String> {
    let both_have =
        |usable: &&UsableProvider| theirs.iter().any(|other| other.provider == usable.provider);
    let Some(UsableProvider { provider, .. }) = ours.iter().find(both_have) else {
        let (ours, theirs) = (names(ours), names(theirs));
        return Err(format!("this end has {ours}, and the peer {theirs}"));
    };
    let fits = |usable: &UsableProvider| {
        usable.provider == *provider && (one_host || !usable.is_loopback())
    };
    let at = |providers: &[UsableProvider]| -> Vec<usize> {
        let mut at: Vec<usize> = (0..providers.len()).filter(|at| fits(&providers[*at])).collect();
        at.sort_by_key(|at| !providers[*at].is_loopback());
        at
    };
    let (here, mut there) = (at(ours), at(theirs));
    let mut pairs = Vec::new();
    for mine in &here {
        let network = &ours[*mine].network;
        if let Some(other) = there.iter().position(|other| theirs[*other].network == *network) {
            let why = format!("both have {provider} of libfabric on {network}");
            pairs.push(Pair { ours: *mine, theirs: there.remove(other), why });
        }
    }
    if pairs.is_empty() {
        let why = format!("both have {provider} of libfabric, on networks of different names");
        let routed = here.iter().zip(&there);
        pairs.extend(routed.map(|(ours, theirs)| Pair {
            ours: *ours,
            theirs: *theirs,
            why: why.clone(),
        }));
    }
    let is_rdma = ours.iter().any(|usable| usable.provider == *provider && usable.is_rdma());
    pairs.truncate(if is_rdma { most } else { 1 });
    match pairs.is_empty() {
        true => Err(format!("{provider} leads nowhere but to its own host")),
        false => Ok(pairs),
    }
}

/// The providers, each once.
fn names(providers: &[UsableProvider]) -> String {
    let mut names: Vec<&str> = providers.iter().map(|usable| usable.provider.as_str()).collect();
    names.dedup();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn providers(all: &[(&str, &str, &str)]) -> Vec<UsableProvider> {
        let usable = |(provider, interface, network): &(&str, &str, &str)| UsableProvider {
            provider: (*provider).to_owned(),
            network: (*network).to_owned(),
            interface: (*interface).to_owned(),
        };
        all.iter().map(usable).collect()
    }

    fn places(
        ours: &[UsableProvider],
        theirs: &[UsableProvider],
        one_host: bool,
    ) -> Vec<(usize, usize)> {
        let pairs = pair(ours, theirs, 4, one_host).unwrap();
        pairs.iter().map(|pair| (pair.ours, pair.theirs)).collect()
    }

    const TCP: [(&str, &str, &str); 3] = [
        ("tcp", "eth0", "192.0.2.0/24"),
        ("tcp", "eth1", "10.0.0.0/8"),
        ("tcp", "lo", "127.0.0.0/8"),
    ];

    #[test]
    fn software_has_one_rail_by_the_nearest_network() {
        let ours = providers(&TCP);
        assert_eq!(places(&ours, &ours, true), [(2, 2)], "the host's own");
        assert_eq!(places(&ours, &ours, false), [(0, 0)]);
        let theirs = providers(&[("tcp", "lo", "127.0.0.0/8"), ("tcp", "en1", "10.0.0.0/8")]);
        assert_eq!(places(&ours, &theirs, false), [(1, 1)]);
        let why = &pair(&ours, &theirs, 4, false).unwrap()[0].why;
        assert_eq!(why, "both have tcp of libfabric on 10.0.0.0/8");
        let routed = providers(&[("tcp", "en1", "203.0.113.0/24")]);
        assert_eq!(places(&ours, &routed, false), [(0, 0)], "by a router");
        let lonely = providers(&TCP[2..]);
        let why = pair(&lonely, &lonely, 4, false).unwrap_err();
        assert_eq!(why, "tcp leads nowhere but to its own host");
    }

    #[test]
    fn devices_are_rails_of_the_best_provider_that_both_have() {
        let efa = [("efa", "rdmap0s6-rdm", "efa"), ("efa", "rdmap1s6-rdm", "efa")];
        let ours = providers(&[&efa[..], &TCP[..]].concat());
        assert_eq!(places(&ours, &ours, false), [(0, 0), (1, 1)]);
        assert_eq!(places(&ours, &providers(&TCP), false), [(2, 0)]);
        assert_eq!(pair(&ours, &ours, 1, false).unwrap().len(), 1, "no more than are wanted");
        let why = pair(&providers(&efa), &providers(&TCP), 4, false).unwrap_err();
        assert_eq!(why, "this end has efa, and the peer tcp");
    }
}
