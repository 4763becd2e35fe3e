//! What a rule for udev matches.

use node::{Address, NetDev};

/// What matches a net device when it appears. A card's is found by its place, since its name comes later.
pub(crate) fn net(netdev: &NetDev) -> String {
    let begin = "ACTION==\"add\", SUBSYSTEM==\"net\"";
    match (netdev.pci, netdev.dev_port) {
        (Some(pci), Some(port)) => {
            format!("{begin}, KERNELS==\"{pci}\", ATTR{{dev_port}}==\"{port}\"")
        }
        _ => format!("{begin}, KERNEL==\"{}\"", netdev.name),
    }
}

/// What matches a PCI function when it appears.
pub(super) fn pci(address: Address) -> String {
    format!("ACTION==\"add\", SUBSYSTEM==\"pci\", KERNEL==\"{address}\"")
}
