//! Differences between Open MPI 4 and 5: version 5 uses another runtime, PRRTE, with its own parameters.

use super::super::arguments::Arguments;
use super::super::job::Job;
use super::super::tag::Tag;
use super::super::tools::Mpi;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Series {
    Four,
    Five,
}

impl Series {
    pub(super) fn of(mpi: &Mpi) -> Result<Series, String> {
        match mpi.version.map(|version| version.0) {
            Some(4) => Ok(Series::Four),
            Some(5..) => Ok(Series::Five),
            Some(_) => {
                Err(format!("{} is too old: launch supports Open MPI 4 and 5", mpi.version_line))
            }
            None => Err(format!(
                "{} is {:?}: launch supports only Open MPI 4 and 5; put one of them first in PATH",
                mpi.mpirun, mpi.version_line
            )),
        }
    }

    /// The name of the shared memory BTL.
    pub(super) fn shared_memory(self) -> &'static str {
        if self == Series::Four { "vader" } else { "sm" }
    }

    pub(super) fn tag(self) -> Tag {
        if self == Series::Four { Tag::Colon } else { Tag::ColonSpace }
    }

    /// How mpirun connects to the hosts, and how it tags their lines.
    pub(in super::super) fn remote(self, job: &Job, arguments: &mut Arguments) {
        let ssh = job.ssh.join(" ");
        let with_job_id = |daemon: &str| format!("env WIRELANE_JOB={} {daemon}", job.id);
        let (set, start, agent, tree, daemon, attached) = match self {
            Series::Four => (
                "--mca",
                ["plm", "rsh"],
                "plm_rsh_agent",
                "plm_rsh_no_tree_spawn",
                ["orte_launch_agent", &with_job_id("orted")],
                "orte_leave_session_attached",
            ),
            Series::Five => (
                "--prtemca",
                ["plm", "ssh"],
                "plm_ssh_agent",
                "plm_ssh_no_tree_spawn",
                ["prte_launch_agent", &with_job_id("prted")],
                "prte_leave_session_attached",
            ),
        };
        match self {
            Series::Four => arguments.add(&["--tag-output"], TAGGED),
            Series::Five => arguments.add(&["--output", "tag"], TAGGED),
        }
        arguments.add(
            &[set, start[0], start[1]],
            "connects to the hosts over ssh, as before, also inside a batch system",
        );
        arguments.add(
            &[set, agent, &ssh],
            "the ssh command that read the hosts' facts; it does not prompt for a password",
        );
        arguments.add(
            &[set, tree, "1"],
            "this machine connects to every host: hosts need no ssh keys for each other",
        );
        arguments.add(
            &[set, daemon[0], daemon[1]],
            "marks the processes, so that leftover ones can be found and killed",
        );
        if !job.ssh.first().is_some_and(|program| program.ends_with("ssh")) {
            arguments.add(
                &[set, attached, "1"],
                "the daemons on the hosts stay in the foreground: srun ends what continues in the background",
            );
        }
    }
}

const TAGGED: &str = "tags each line with its rank, and so its host";
