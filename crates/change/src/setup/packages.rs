//! Packages that RDMA and MPI need, with their names in each distribution family.

use doctor::expected::kernel_modules::has_infiniband;

use super::{Context, Family, Purpose, Refusal};
use crate::Plan;

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    if context.node.host.container.is_some() {
        plan.advise(
            "packages",
            CONTAINER,
            vec![context.family.package_manager().install(&names(context))],
        );
        return Ok(());
    }
    let (names, package_manager) = (names(context), context.family.package_manager());
    let change = match context.tree.is_live() {
        true => package_manager.change(&names),
        false => Ok(package_manager.change_without_dependencies(&names)),
    };
    // Not tested on a machine of Red Hat's family.
    let tested_on_hardware = context.family == Family::Debian;
    match change {
        Ok(change) => {
            plan.step("packages", why(context.request.purpose), change, tested_on_hardware)
        }
        Err(error) => {
            plan.advise("packages", error.to_string(), vec![package_manager.install(&names)])
        }
    }
    Ok(())
}

fn why(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Rdma => "libraries and drivers for RDMA programs, and test tools",
        Purpose::Mpi => {
            "libraries and drivers for RDMA programs, test tools, and Open MPI with UCX"
        }
    }
}

fn names(context: &Context<'_>) -> Vec<String> {
    let mut names = match context.family {
        Family::Debian => DEBIAN.to_vec(),
        Family::RedHat => RED_HAT.to_vec(),
    };
    if has_infiniband(context.node) {
        names.push("infiniband-diags");
    }
    if context.request.purpose == Purpose::Mpi {
        names.extend(match context.family {
            Family::Debian => ["openmpi-bin", "ucx-utils"].as_slice(),
            // The package ucx has no RDMA transports there.
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

const CONTAINER: &str = "install packages in the container's image";
