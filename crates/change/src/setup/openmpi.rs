//! What MPI needs besides packages.

use super::{Context, Family, Purpose, Refusal};
use crate::Plan;

pub(super) fn propose(context: &Context<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    if context.request.purpose != Purpose::Mpi {
        return Ok(());
    }
    if context.family == Family::RedHat {
        let why = "Open MPI is not on the PATH until its module is loaded";
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
            "ssh-keygen -t ed25519    # if there is no key yet".to_owned(),
            "ssh-copy-id HOST".to_owned(),
            "wirelane hosts check --hosts HOST,HOST".to_owned(),
        ],
    );
    Ok(())
}

const SSH: &str =
    "jobs start on other hosts over ssh, with keys and without prompts; create the keys yourself";
