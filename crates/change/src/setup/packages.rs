//! Packages that RDMA and MPI need, by their names in each family.

use doctor::limits::kernel_modules::has_infiniband;

use super::{Ask, Family, Purpose, Refusal};
use crate::Plan;

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    if ask.node.host.container.is_some() {
        plan.advise("packages", CONTAINER, vec![ask.family.packager().install(&names(ask))]);
        return Ok(());
    }
    let (names, packager) = (names(ask), ask.family.packager());
    let change = match ask.tree.is_live() {
        true => packager.change(&names),
        false => Ok(packager.change_unasked(&names)),
    };
    // Not run on a machine of Red Hat's family.
    let proven = ask.family == Family::Debian;
    match change {
        Ok(change) => plan.step("packages", why(ask.wish.purpose), change, proven),
        Err(error) => plan.advise("packages", error.to_string(), vec![packager.install(&names)]),
    }
    Ok(())
}

fn why(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Rdma => "libraries and drivers of RDMA programs, and tools to try them",
        Purpose::Mpi => {
            "libraries and drivers of RDMA programs, tools to try them, and Open MPI with UCX"
        }
    }
}

fn names(ask: &Ask<'_>) -> Vec<String> {
    let mut names = match ask.family {
        Family::Debian => DEBIAN.to_vec(),
        Family::RedHat => RED_HAT.to_vec(),
    };
    if has_infiniband(ask.node) {
        names.push("infiniband-diags");
    }
    if ask.wish.purpose == Purpose::Mpi {
        names.extend(match ask.family {
            Family::Debian => ["openmpi-bin", "ucx-utils"].as_slice(),
            // UCX itself has no RDMA in it there.
            Family::RedHat => &["openmpi", "ucx", "ucx-ib", "ucx-rdmacm"],
        });
    }
    names.into_iter().map(str::to_owned).collect()
}

const DEBIAN: [&str; 7] = [
    "rdma-core",
    "ibverbs-providers",
    "ibverbs-utils",
    "rdmacm-utils",
    "perftest",
    "iproute2",
    "ethtool",
];
const RED_HAT: [&str; 6] =
    ["rdma-core", "libibverbs-utils", "librdmacm-utils", "perftest", "iproute", "ethtool"];

const CONTAINER: &str = "what a container has belongs into its image";
