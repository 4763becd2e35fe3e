//! The plan of rails between two ends, with the reasons: a pure function of both hellos.

use super::providers::Requirements;
use crate::link::config::Policy;
use crate::link::protocol::control::{RailPlan, Transport};
use crate::link::protocol::hello::{Hello, port_name};
use crate::ofi;
use crate::verbs::{Gid, allowed, pair};

/// The decisions of the initiator.
#[derive(Debug, Default)]
pub(in crate::link) struct Plans {
    pub(in crate::link) plans: Vec<RailPlan>,
    /// Transports and ports that are not used, with the reasons.
    pub(in crate::link) left_out: Vec<String>,
}

/// The rails from `ours`, the initiator, to `theirs`; or why there is none. `session_encrypted`: the control connection
/// is encrypted, so that lanes can be encrypted.
pub(in crate::link) fn plan(
    ours: &Hello,
    theirs: &Hello,
    max_rails: usize,
    allowed_gids: &[Gid],
    session_encrypted: bool,
) -> Result<Plans, String> {
    let policy = combine_policies(ours, theirs)?;
    let mut plans = Plans::default();
    for transport in Transport::ALL {
        // If no end enables libfabric, there is nothing to explain.
        if transport == Transport::Ofi
            && ![ours, theirs].iter().any(|hello| hello.transports.contains(&transport))
        {
            continue;
        }
        if let Err(why) = check_enabled(transport, policy, ours, theirs, session_encrypted) {
            plans.left_out.push(format!("{}: {why}", transport.name()));
            continue;
        }
        match transport {
            Transport::Shm => plans.add(transport, [SHM, SHM], 1, "both ends are on one host"),
            Transport::Verbs => plans.add_verbs(ours, theirs, max_rails, allowed_gids),
            Transport::Ofi => {
                let (encrypt, restricts_gids) =
                    (ours.encrypt || theirs.encrypt, !allowed_gids.is_empty());
                plans.add_ofi(
                    ours,
                    theirs,
                    max_rails,
                    Requirements { policy, encrypt, restricts_gids },
                );
            }
            Transport::Tcp => {
                let why = match plans.plans.is_empty() {
                    true => format!("no better transport: {}", plans.left_out.join("; ")),
                    false => "fallback when no better transport is up".to_owned(),
                };
                plans.add(transport, [TCP, TCP], 1, &why);
            }
        }
    }
    match plans.plans.is_empty() {
        true => Err(plans.left_out.join("; ")),
        false => Ok(plans),
    }
}

/// The policy that results from both ends'.
pub(in crate::link) fn combine_policies(ours: &Hello, theirs: &Hello) -> Result<Policy, String> {
    ours.policy.combine(theirs.policy).ok_or_else(|| {
        let (one, other) = match ours.policy {
            Policy::Require => ("this end requires", "the peer"),
            _ => ("the peer requires", "this end"),
        };
        format!("{one} RDMA, but it is off at {other}")
    })
}

/// Whether a transport may be used, or why not.
fn check_enabled(
    transport: Transport,
    policy: Policy,
    ours: &Hello,
    theirs: &Hello,
    session_encrypted: bool,
) -> Result<(), String> {
    if !ours.transports.contains(&transport) {
        return Err("not enabled at this end".to_owned());
    }
    if !theirs.transports.contains(&transport) {
        return Err("not enabled at the peer".to_owned());
    }
    match (transport, policy) {
        (Transport::Shm | Transport::Tcp, Policy::Require) => Err("RDMA is required".to_owned()),
        (Transport::Verbs, Policy::Off) => Err("RDMA is off by policy".to_owned()),
        (Transport::Tcp, _) if (ours.encrypt || theirs.encrypt) && !session_encrypted => {
            Err("encryption is required, and there is no key".to_owned())
        }
        (Transport::Shm, _) if ours.boot_id != theirs.boot_id => {
            Err("the peer is on another host".to_owned())
        }
        _ => Ok(()),
    }
}

impl Plans {
    fn add(&mut self, transport: Transport, port_names: [&str; 2], weight: u32, why: &str) {
        let port_names = port_names.map(str::to_owned);
        self.plans.push(RailPlan { transport, port_names, weight, why: why.to_owned() });
    }

    fn add_verbs(&mut self, ours: &Hello, theirs: &Hello, max_rails: usize, allowed_gids: &[Gid]) {
        for (hello, whose) in [(ours, "this end"), (theirs, "the peer")] {
            if hello.ports.is_empty() {
                self.left_out.push(format!("verbs: {whose} has no RDMA: {}", hello.no_rdma));
            }
        }
        let (in_list, others): (Vec<_>, Vec<_>) =
            theirs.ports.iter().cloned().partition(|port| allowed(&port.gid, allowed_gids));
        for port in others {
            let name = port_name(&port);
            self.left_out.push(format!("verbs: the peer's {name}: its GID is not allowed here"));
        }
        let (pairs, left_out) = pair(&ours.ports, &in_list, max_rails);
        self.left_out.extend(left_out.into_iter().map(|why| format!("verbs: {why}")));
        for pair in pairs {
            let port_names = [port_name(&ours.ports[pair.ours]), port_name(&in_list[pair.theirs])];
            let weight = u32::try_from(pair.weight).unwrap_or(u32::MAX).max(1);
            self.plans.push(RailPlan {
                transport: Transport::Verbs,
                port_names,
                weight,
                why: pair.why,
            });
        }
    }

    fn add_ofi(
        &mut self,
        ours: &Hello,
        theirs: &Hello,
        max_rails: usize,
        requirements: Requirements,
    ) {
        let usable = [(ours, "this end"), (theirs, "the peer")].map(|(hello, whose)| {
            if hello.ofi.is_empty() {
                self.left_out.push(format!("ofi: {whose} has no libfabric: {}", hello.no_ofi));
            }
            let mut providers = hello.ofi.clone();
            providers.retain(|usable| match requirements.refusal(&usable.provider) {
                Some(why) => {
                    let reason = format!("ofi: {} of {whose}: {why}", usable.provider);
                    if !self.left_out.contains(&reason) {
                        self.left_out.push(reason);
                    }
                    false
                }
                None => true,
            });
            providers
        });
        let [here, there] = &usable;
        if here.is_empty() || there.is_empty() {
            return;
        }
        match ofi::pair(here, there, max_rails, ours.boot_id == theirs.boot_id) {
            Ok(pairs) => {
                for pair in pairs {
                    let port_names =
                        [&here[pair.ours], &there[pair.theirs]].map(ofi::UsableProvider::name);
                    self.plans.push(RailPlan {
                        transport: Transport::Ofi,
                        port_names,
                        weight: 1,
                        why: pair.why,
                    });
                }
            }
            Err(why) => self.left_out.push(format!("ofi: {why}")),
        }
    }
}

/// The names of transports that have no device.
pub(in crate::link) const SHM: &str = "shm";
pub(in crate::link) const TCP: &str = "tcp";

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(boot: u8, policy: Policy) -> Hello {
        Hello {
            epoch: 1,
            boot_id: [boot; 16],
            host: "h".to_owned(),
            policy,
            transports: Transport::ALL.to_vec(),
            encrypt: false,
            max_payload: 4096,
            max_regions: 16,
            ports: Vec::new(),
            no_rdma: "there is no RDMA device".to_owned(),
            ofi: Vec::new(),
            no_ofi: "libfabric is not installed".to_owned(),
        }
    }

    fn with_ofi(hello: Hello, provider: &str) -> Hello {
        let provider = ofi::UsableProvider {
            provider: provider.to_owned(),
            network: "net".to_owned(),
            interface: "if0".to_owned(),
        };
        Hello { ofi: vec![provider], ..hello }
    }

    #[test]
    fn libfabric_comes_between_verbs_and_tcp_with_its_reason() {
        let [a, b] = [1, 2].map(|boot| with_ofi(hello(boot, Policy::Prefer), "efa"));
        let plans = plan(&a, &b, 4, &[], false).unwrap();
        assert_eq!(transports(&a, &b), [Transport::Ofi, Transport::Tcp]);
        assert_eq!(plans.plans[0].port_names, ["efa if0 net", "efa if0 net"]);
        assert_eq!(plans.plans[0].why, "both ends have libfabric provider efa on net");
        let without = hello(2, Policy::Prefer);
        let why = plan(&a, &without, 4, &[], false).unwrap().left_out.join("; ");
        assert!(
            why.contains("ofi: the peer has no libfabric: libfabric is not installed"),
            "{why}"
        );
    }

    #[test]
    fn policies_distinguish_rdma_and_software_providers() {
        let both = |provider: &str, policy| {
            let [a, b] = [1, 2].map(|boot| with_ofi(hello(boot, policy), provider));
            let plans = plan(&a, &b, 4, &[], false)?;
            Ok::<_, String>(plans.plans.iter().any(|plan| plan.transport == Transport::Ofi))
        };
        assert_eq!(both("efa", Policy::Require), Ok(true));
        assert_eq!(both("efa", Policy::Off), Ok(false));
        assert_eq!(both("tcp", Policy::Off), Ok(true));
        let why = both("tcp", Policy::Require).unwrap_err();
        assert!(why.contains("ofi: tcp of the peer: RDMA is required"), "{why}");
        let secret = || Hello { encrypt: true, ..with_ofi(hello(1, Policy::Prefer), "tcp") };
        let why = plan(&secret(), &secret(), 4, &[], true).unwrap().left_out.join("; ");
        assert!(why.contains("encryption is required, and libfabric has none"), "{why}");
        let [a, b] = [1, 2].map(|boot| with_ofi(hello(boot, Policy::Prefer), "efa"));
        let why = plan(&a, &b, 4, &[Gid([1; 16])], false).unwrap().left_out.join("; ");
        assert!(why.contains("allowed_gids is set"), "{why}");
    }

    fn transports(ours: &Hello, theirs: &Hello) -> Vec<Transport> {
        let plans = plan(ours, theirs, 4, &[], false).unwrap();
        plans.plans.iter().map(|plan| plan.transport).collect()
    }

    #[test]
    fn on_one_host_shared_memory_is_used_with_tcp_as_fallback() {
        let (a, b) = (hello(1, Policy::Prefer), hello(1, Policy::Prefer));
        assert_eq!(transports(&a, &b), [Transport::Shm, Transport::Tcp]);
        let only_tcp = Hello { transports: vec![Transport::Tcp], ..hello(1, Policy::Prefer) };
        assert_eq!(transports(&a, &only_tcp), [Transport::Tcp]);
    }

    #[test]
    fn without_rdma_another_host_is_reached_over_tcp_with_the_reason() {
        let plans =
            plan(&hello(1, Policy::Prefer), &hello(2, Policy::Prefer), 4, &[], false).unwrap();
        assert_eq!(plans.plans.len(), 1);
        assert!(plans.plans[0].why.contains("there is no RDMA device"), "{}", plans.plans[0].why);
        assert!(plans.plans[0].why.contains("another host"), "{}", plans.plans[0].why);
    }

    #[test]
    fn missing_required_rdma_is_refused_with_the_reason() {
        let why =
            plan(&hello(1, Policy::Require), &hello(1, Policy::Prefer), 4, &[], false).unwrap_err();
        assert!(why.contains("there is no RDMA device"), "{why}");
        let why =
            plan(&hello(1, Policy::Require), &hello(1, Policy::Off), 4, &[], false).unwrap_err();
        assert!(why.contains("this end requires RDMA, but it is off at the peer"), "{why}");
    }
}
