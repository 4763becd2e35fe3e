//! Permissions of the nodes of /dev/infiniband. By default all users may open those of verbs; where that was restricted to
//! root, the group `rdma` gets access.

use node::{CharDevice, Reading};

use super::{Context, Refusal, persistent_file};
use crate::{Change, Plan};

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let closed: Vec<&CharDevice> = context
        .node
        .char_devices
        .iter()
        .filter(|node| is_of_verbs(node) && is_closed(context, node))
        .collect();
    let Some(first) = closed.first() else { return Ok(()) };
    if group(context).is_none() {
        let why = format!(
            "only root may open {}, and there is no group rdma to give access to",
            first.path
        );
        let again =
            format!("wirelane setup {} apply --only permissions", context.request.purpose.name());
        plan.advise("permissions", why, vec!["groupadd --system rdma".to_owned(), again]);
        return Ok(());
    }
    plan.step(
        "permissions",
        format!("only root may open {}; the commands below apply the rule now", first.path),
        rule(),
        false,
    );
    let commands = [
        "udevadm control --reload",
        TRIGGER,
        "usermod --append --groups rdma USER    # then log in again",
    ];
    plan.advise("permissions", MEMBERS, commands.map(str::to_owned).to_vec());
    Ok(())
}

fn rule() -> Change {
    let rules = [
        r#"SUBSYSTEM=="infiniband_verbs", GROUP="rdma", MODE="0660""#,
        r#"KERNEL=="rdma_cm", SUBSYSTEM=="misc", GROUP="rdma", MODE="0660""#,
    ];
    Change::file(
        "/etc/udev/rules.d/90-wirelane-rdma-group.rules",
        persistent_file(&rules.map(str::to_owned)),
    )
}

fn is_of_verbs(node: &CharDevice) -> bool {
    let name = node.path.strip_prefix("/dev/infiniband/").unwrap_or_default();
    name.starts_with("uverbs") || name == "rdma_cm"
}

/// Neither all users nor the group `rdma` may read and write.
fn is_closed(context: &Context<'_>, node: &CharDevice) -> bool {
    let Reading::Value(node) = node.node else { return false };
    let of_group = group(context) == Some(node.gid) && node.mode & 0o060 == 0o060;
    node.mode & 0o006 != 0o006 && !of_group
}

/// The ID of the group `rdma`.
fn group(context: &Context<'_>) -> Option<u32> {
    let groups = context.tree.text("/etc/group").into_value()?;
    let rest = groups.lines().find_map(|line| line.strip_prefix("rdma:"))?;
    rest.split(':').nth(1)?.parse().ok()
}

const MEMBERS: &str = "the rule applies when a device appears; users of RDMA must be in the group";
const TRIGGER: &str = "udevadm trigger --subsystem-match=infiniband_verbs --subsystem-match=misc";
