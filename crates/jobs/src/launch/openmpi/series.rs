//! What differs between Open MPI 4 and 5: version 5 has another runtime below it, PRRTE, with parameters of its own.

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
            Some(_) => Err(format!("{} is too old: launch knows Open MPI 4 and 5", mpi.says)),
            None => Err(format!(
                "{} says it is {:?}: launch knows Open MPI 4 and 5 alone; put one of them first into PATH",
                mpi.mpirun, mpi.says
            )),
        }
    }

    /// What shared memory is called.
    pub(super) fn shared_memory(self) -> &'static str {
        if self == Series::Four { "vader" } else { "sm" }
    }

    pub(super) fn tag(self) -> Tag {
        if self == Series::Four { Tag::Colon } else { Tag::ColonSpace }
    }

    /// How mpirun reaches the hosts, and how it marks their lines.
    pub(in super::super) fn remote(self, job: &Job, arguments: &mut Arguments) {
        let ssh = job.ssh.join(" ");
        let marked = |daemon: &str| format!("env WIRELANE_JOB={} {daemon}", job.id);
        let (set, start, agent, tree, daemon) = match self {
            Series::Four => (
                "--mca",
                ["plm", "rsh"],
                "plm_rsh_agent",
                "plm_rsh_no_tree_spawn",
                ["orte_launch_agent", &marked("orted")],
            ),
            Series::Five => (
                "--prtemca",
                ["plm", "ssh"],
                "plm_ssh_agent",
                "plm_ssh_no_tree_spawn",
                ["prte_launch_agent", &marked("prted")],
            ),
        };
        match self {
            Series::Four => arguments.add(&["--tag-output"], TAGGED),
            Series::Five => arguments.add(&["--output", "tag"], TAGGED),
        }
        arguments.add(
            &[set, start[0], start[1]],
            "the method by which the hosts were reached before, also where a batch system would offer another",
        );
        arguments
            .add(&[set, agent, &ssh], "the same that looked at the hosts; it asks for no password");
        arguments.add(
            &[set, tree, "1"],
            "every host is reached from here: they need no keys for each other",
        );
        arguments.add(
            &[set, daemon[0], daemon[1]],
            "so that whatever is left there can be found and ended",
        );
    }
}

const TAGGED: &str = "tells which rank printed a line, and so which host";
