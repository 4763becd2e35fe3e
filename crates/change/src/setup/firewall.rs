//! Whether the firewall accepts packets. Which addresses to allow is the administrator's decision: so it is
//! advice, as commands of the firewall service in use.

use doctor::expected::firewall::{ROCE_PORT, accepts_roce, applies_to};
use node::Tree;

use super::{Context, Refusal};
use crate::Plan;

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let soft = context.node.devices.iter().any(applies_to);
    match context.tree.query_results().firewall() {
        Some(rules) if rules.drops_by_default == Some(false) => return Ok(()),
        Some(rules) if rules.readable => {
            let drops_roce = soft && !accepts_roce(rules);
            if drops_roce {
                let why = "the firewall drops soft-RoCE: UDP port 4791 is not accepted";
                plan.advise(
                    "firewall",
                    why,
                    service(context.tree).open("udp", &ROCE_PORT.to_string()),
                );
            }
        }
        // A folder or a snapshot, or a user who may not read the rules.
        _ if service(context.tree) == FirewallService::Tables => return Ok(()),
        _ => {}
    }
    plan.advise("firewall", PROGRAMS, service(context.tree).trust());
    Ok(())
}

/// The service that manages the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirewallService {
    Firewalld,
    Ufw,
    /// None: rules are set with nft or iptables.
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
    /// Commands that accept packets to a port.
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

    /// Commands that accept all packets of a network: jobs connect over TCP to ports that the kernel chooses.
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

const PROGRAMS: &str = "RoCE of NICs bypasses the firewall, but programs connect over TCP first, MPI to ports that the \
                        kernel chooses: accept the network of your jobs' hosts";
