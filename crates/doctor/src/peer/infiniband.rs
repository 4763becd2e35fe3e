//! InfiniBand ports of two machines: the same fabric, and a common partition.

use node::Port;

use super::{End, PortKind, gid_evidence};
use crate::{Evidence, Finding};

/// Findings on pairs of InfiniBand ports.
pub(super) fn compare(pairs: &[(&End<'_>, &End<'_>)]) -> Vec<Finding> {
    let pairs: Vec<_> =
        pairs.iter().filter(|(one, _)| one.kind == PortKind::InfiniBand).copied().collect();
    if pairs.is_empty() {
        return Vec::new();
    }
    let one_fabric: Vec<_> = pairs
        .iter()
        .filter(|(one, other)| {
            subnet(one).is_none() || subnet(other).is_none() || subnet(one) == subnet(other)
        })
        .copied()
        .collect();
    if one_fabric.is_empty() {
        let finding = Finding::problem(
            "peer",
            "the InfiniBand ports have different subnet prefixes: they are on different fabrics",
        );
        return vec![
            finding
                .evidence_all(gid_evidence(&pairs))
                .fix("Use ports of one fabric, or a router between them."),
        ];
    }
    if one_fabric.iter().any(|(one, other)| share_partition(one.port, other.port)) {
        let (one, other) = one_fabric[0];
        return vec![Finding::ok(
            format!("{} – {}", one.name, other.name),
            "on the same InfiniBand fabric, in a common partition",
        )];
    }
    let keys = |end: &End<'_>| {
        end.port.pkeys.iter().map(|key| format!("{key:#06x}")).collect::<Vec<_>>().join(", ")
    };
    let (one, other) = one_fabric[0];
    vec![
        Finding::problem("peer", "no common partition, or both are limited members of it")
            .evidence(Evidence::new(format!("here, {}: P_Keys", one.name), keys(one)))
            .evidence(Evidence::new(format!("there, {}: P_Keys", other.name), keys(other)))
            .fix(
                "Put both ports into one partition as full members, in the subnet manager's \
                 partitions.conf.",
            ),
    ]
}

/// Bit 15 is full membership; two limited members cannot communicate. Unknown keys are accepted.
fn share_partition(one: &Port, other: &Port) -> bool {
    let matches = |key: &u16| {
        other
            .pkeys
            .iter()
            .any(|theirs| key & 0x7fff == theirs & 0x7fff && (key | theirs) & 0x8000 != 0)
    };
    one.pkeys.is_empty() || other.pkeys.is_empty() || one.pkeys.iter().any(matches)
}

/// The upper half of an InfiniBand port's GID.
fn subnet(end: &End<'_>) -> Option<u64> {
    let gid = end.port.gids.first()?;
    u64::try_from(u128::from(gid.gid) >> 64).ok()
}
