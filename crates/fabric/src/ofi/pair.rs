//! Pairs the providers of two ends.

use super::usable_provider::UsableProvider;

/// Two providers, by index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) ours: usize,
    pub(crate) theirs: usize,
    pub(crate) why: String,
}

/// Pairs the interfaces of the first local provider that the peer also has: those of the same network, or else in order.
/// Each device is a rail, in at most one pair; of a software provider one pair is enough. The error: why there is none.
pub(crate) fn pair(
    ours: &[UsableProvider],
    theirs: &[UsableProvider],
    max: usize,
    same_host: bool,
) -> Result<Vec<Pair>, String> {
    let both_have =
        |usable: &&UsableProvider| theirs.iter().any(|other| other.provider == usable.provider);
    let Some(UsableProvider { provider, .. }) = ours.iter().find(both_have) else {
        let (ours, theirs) = (names(ours), names(theirs));
        return Err(format!("no common provider: this end has {ours}, the peer has {theirs}"));
    };
    let fits = |usable: &UsableProvider| {
        usable.provider == *provider && (same_host || !usable.is_loopback())
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
            let why = format!("both ends have libfabric provider {provider} on {network}");
            pairs.push(Pair { ours: *mine, theirs: there.remove(other), why });
        }
    }
    if pairs.is_empty() {
        let why = format!("both ends have libfabric provider {provider}, on different networks");
        let routed = here.iter().zip(&there);
        pairs.extend(routed.map(|(ours, theirs)| Pair {
            ours: *ours,
            theirs: *theirs,
            why: why.clone(),
        }));
    }
    let is_rdma = ours.iter().any(|usable| usable.provider == *provider && usable.is_rdma());
    pairs.truncate(if is_rdma { max } else { 1 });
    match pairs.is_empty() {
        true => Err(format!("{provider} has loopback interfaces only")),
        false => Ok(pairs),
    }
}

/// The names of the providers, each once.
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
        same_host: bool,
    ) -> Vec<(usize, usize)> {
        let pairs = pair(ours, theirs, 4, same_host).unwrap();
        pairs.iter().map(|pair| (pair.ours, pair.theirs)).collect()
    }

    const TCP: [(&str, &str, &str); 3] = [
        ("tcp", "eth0", "192.0.2.0/24"),
        ("tcp", "eth1", "10.0.0.0/8"),
        ("tcp", "lo", "127.0.0.0/8"),
    ];

    #[test]
    fn a_software_provider_has_one_rail() {
        let ours = providers(&TCP);
        assert_eq!(places(&ours, &ours, true), [(2, 2)], "loopback");
        assert_eq!(places(&ours, &ours, false), [(0, 0)]);
        let theirs = providers(&[("tcp", "lo", "127.0.0.0/8"), ("tcp", "en1", "10.0.0.0/8")]);
        assert_eq!(places(&ours, &theirs, false), [(1, 1)]);
        let why = &pair(&ours, &theirs, 4, false).unwrap()[0].why;
        assert_eq!(why, "both ends have libfabric provider tcp on 10.0.0.0/8");
        let routed = providers(&[("tcp", "en1", "203.0.113.0/24")]);
        assert_eq!(places(&ours, &routed, false), [(0, 0)], "routed");
        let loopback = providers(&TCP[2..]);
        let why = pair(&loopback, &loopback, 4, false).unwrap_err();
        assert_eq!(why, "tcp has loopback interfaces only");
    }

    #[test]
    fn devices_of_the_best_common_provider_are_rails() {
        let efa = [("efa", "rdmap0s6-rdm", "efa"), ("efa", "rdmap1s6-rdm", "efa")];
        let ours = providers(&[&efa[..], &TCP[..]].concat());
        assert_eq!(places(&ours, &ours, false), [(0, 0), (1, 1)]);
        assert_eq!(places(&ours, &providers(&TCP), false), [(2, 0)]);
        assert_eq!(pair(&ours, &ours, 1, false).unwrap().len(), 1, "at most the limit");
        let why = pair(&providers(&efa), &providers(&TCP), 4, false).unwrap_err();
        assert_eq!(why, "no common provider: this end has efa, the peer has tcp");
    }
}
