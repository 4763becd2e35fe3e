//! What MPI needs that is no package.

use super::{Ask, Family, Purpose, Refusal};
use crate::Plan;

pub(super) fn propose(ask: &Ask<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    if ask.wish.purpose != Purpose::Mpi {
        return Ok(());
    }
    if ask.family == Family::RedHat {
        let why = "Open MPI is not on the path here until its module is loaded";
        plan.advise(
            "openmpi",
            why,
            vec!["module load mpi/openmpi-x86_64    # in ~/.bashrc for all jobs".to_owned()],
        );
    }
    plan.advise(
        "openmpi",
        SSH,
        vec![
            "ssh-keygen -t ed25519    # where there is no key yet".to_owned(),
            "ssh-copy-id HOST".to_owned(),
            "wirelane hosts check --hosts HOST,HOST".to_owned(),
        ],
    );
    Ok(())
}

const SSH: &str =
    "jobs start on other hosts by ssh, by keys and without questions; keys are yours to make";
