//! The firewall and RoCE.

use node::queries::Firewall;
use node::{Device, Role};

/// The UDP port of RoCE v2.
pub const ROCE_PORT: u16 = 4791;

/// Whether a rule accepts RoCE v2.
pub fn accepts_roce(rules: &Firewall) -> bool {
    rules.udp_let_in.iter().any(|(from, to)| (*from..=*to).contains(&ROCE_PORT))
}

/// Whether the firewall applies to the device's RoCE packets: soft-RoCE receives them from the kernel, after the
/// firewall; hardware receives them before it.
pub fn applies_to(device: &Device) -> bool {
    device.role == Role::Software && device.driver.as_deref() != Some("siw")
}
