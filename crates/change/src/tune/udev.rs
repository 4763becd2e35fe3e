//! Matches of udev rules.

use node::{Address, NetDev};

/// Matches a net device when it appears. That of a NIC is matched by its PCI address, since it is renamed later.
pub(crate) fn net(netdev: &NetDev) -> String {
    let prefix = "ACTION==\"add\", SUBSYSTEM==\"net\"";
    match (netdev.pci, netdev.dev_port) {
        (Some(pci), Some(port)) => {
            format!("{prefix}, KERNELS==\"{pci}\", ATTR{{dev_port}}==\"{port}\"")
        }
        _ => format!("{prefix}, KERNEL==\"{}\"", netdev.name),
    }
}

/// Matches a PCI function when it appears.
pub(super) fn pci(address: Address) -> String {
    format!("ACTION==\"add\", SUBSYSTEM==\"pci\", KERNEL==\"{address}\"")
}
