//! Whether packets get in. Whose rules they are, and for which addresses, only their administrator knows: so it is
//! advice, as commands of the firewall service that is used here.

use doctor::limits::firewall::{ROCE_PORT, accepts_roce, applies_to};
use node::Tree;

use super::{Ask, Refusal};
use crate::Plan;

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let soft = ask.node.devices.iter().any(applies_to);
    match ask.tree.answers().firewall() {
        Some(rules) if rules.drops_by_default == Some(false) => return Ok(()),
        Some(rules) if rules.readable => {
            let drops_roce = soft && !accepts_roce(rules);
            if drops_roce {
                let why = "the packet filter drops soft-RoCE: UDP port 4791 is not let in";
                plan.advise("firewall", why, service(ask.tree).open("udp", &ROCE_PORT.to_string()));
            }
        }
        // A tree, or somebody who may not read the rules.
        _ if service(ask.tree) == FirewallService::Tables => return Ok(()),
        _ => {}
    }
    plan.advise("firewall", PROGRAMS, service(ask.tree).trust());
    Ok(())
}

/// Who keeps the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirewallService {
    Firewalld,
    Ufw,
    /// Nobody: rules are the kernel's own.
    Tables,
}

pub(crate) fn service(tree: &Tree) -> FirewallService {
    let ufw = tree.text("/etc/ufw/ufw.conf").into_value().unwrap_or_default();
    let wanted = "/etc/systemd/system/multi-user.target.wants/firewalld.service";
    match () {
        () if tree.exists("/run/firewalld") || tree.exists(wanted) => FirewallService::Firewalld,
        () if ufw.lines().any(|line| line.trim() == "ENABLED=yes") => FirewallService::Ufw,
        () => FirewallService::Tables,
    }
}

impl FirewallService {
    /// What lets a port in.
    pub(crate) fn open(self, protocol: &str, port: &str) -> Vec<String> {
        match self {
            FirewallService::Firewalld => vec![
                format!("firewall-cmd --permanent --add-port={port}/{protocol}"),
                "firewall-cmd --reload".to_owned(),
            ],
            FirewallService::Ufw => vec![format!("ufw allow {port}/{protocol}")],
            FirewallService::Tables => {
                vec![format!("nft insert rule inet filter input {protocol} dport {port} accept")]
            }
        }
    }

    /// Jobs meet over TCP at ports that the kernel chooses: so whole networks are let in, not ports.
    fn trust(self) -> Vec<String> {
        match self {
            FirewallService::Firewalld => vec![
                "firewall-cmd --permanent --zone=trusted --add-source=NETWORK    # as 10.0.0.0/24"
                    .to_owned(),
                "firewall-cmd --reload".to_owned(),
            ],
            FirewallService::Ufw => vec!["ufw allow from NETWORK    # as 10.0.0.0/24".to_owned()],
            FirewallService::Tables => {
                vec![
                    "nft insert rule inet filter input ip saddr NETWORK accept    # as 10.0.0.0/24"
                        .to_owned(),
                ]
            }
        }
    }
}

const PROGRAMS: &str = "RoCE of cards passes no packet filter, but programs meet over TCP first, MPI at ports of the \
                        kernel's choice: let the hosts of your jobs in by their network";
