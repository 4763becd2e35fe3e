//! The packet filter and RoCE.

use node::answers::Firewall;
use node::{Device, Role};

/// The UDP port of RoCE v2.
pub const ROCE_PORT: u16 = 4791;

/// Whether a rule lets RoCE v2 in, whatever happens to the rest.
pub fn lets_roce_in(rules: &Firewall) -> bool {
    rules.udp_let_in.iter().any(|(from, to)| (*from..=*to).contains(&ROCE_PORT))
}

/// Whether the filter applies to the device's RoCE packets: the kernel hands them to soft-RoCE after it, a card takes
/// them before it.
pub fn applies_to(device: &Device) -> bool {
    device.role == Role::Software && device.driver.as_deref() != Some("siw")
}
