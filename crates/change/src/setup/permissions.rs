//! Who may open the nodes of /dev/infiniband. Kernels make those of verbs for everybody; where somebody took that
//! away, members of the group `rdma` are let in.

use node::{CharDevice, Seen};

use super::{Ask, KEPT, Refusal, kept};
use crate::{Change, Plan};

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let closed: Vec<&CharDevice> = ask
        .node
        .char_devices
        .iter()
        .filter(|node| is_of_verbs(node) && is_closed(ask, node))
        .collect();
    let Some(first) = closed.first() else { return Ok(()) };
    if group(ask).is_none() {
        let why = format!(
            "only root may open {}, and there is no group rdma to let others in by",
            first.path
        );
        let again = format!("wirelane setup {} apply --only group", ask.wish.purpose.name());
        plan.advise("group", why, vec!["groupadd --system rdma".to_owned(), again]);
        return Ok(());
    }
    plan.step(
        "group",
        format!("only root may open {}: {KEPT}, and now by the command below", first.path),
        rule(),
        false,
    );
    let commands = [
        "udevadm control --reload",
        TRIGGER,
        "usermod --append --groups rdma USER    # then log in again",
    ];
    plan.advise("group", MEMBERS, commands.map(str::to_owned).to_vec());
    Ok(())
}

fn rule() -> Change {
    let rules = [
        r#"SUBSYSTEM=="infiniband_verbs", GROUP="rdma", MODE="0660""#,
        r#"KERNEL=="rdma_cm", SUBSYSTEM=="misc", GROUP="rdma", MODE="0660""#,
    ];
    Change::file("/etc/udev/rules.d/90-wirelane-rdma-group.rules", kept(&rules.map(str::to_owned)))
}

fn is_of_verbs(node: &CharDevice) -> bool {
    let name = node.path.strip_prefix("/dev/infiniband/").unwrap_or_default();
    name.starts_with("uverbs") || name == "rdma_cm"
}

/// Neither everybody nor the group of RDMA's users may read and write.
fn is_closed(ask: &Ask<'_>, node: &CharDevice) -> bool {
    let Seen::Value(node) = node.node else { return false };
    let of_group = group(ask) == Some(node.gid) && node.mode & 0o060 == 0o060;
    node.mode & 0o006 != 0o006 && !of_group
}

/// The number of the group `rdma`.
fn group(ask: &Ask<'_>) -> Option<u32> {
    let groups = ask.tree.text("/etc/group").into_value()?;
    let rest = groups.lines().find_map(|line| line.strip_prefix("rdma:"))?;
    rest.split(':').nth(1)?.parse().ok()
}

const MEMBERS: &str =
    "the rule acts when a device appears; and who is to use RDMA must be in the group";
const TRIGGER: &str = "udevadm trigger --subsystem-match=infiniband_verbs --subsystem-match=misc";
