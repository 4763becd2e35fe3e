//! Lines of what starts the processes of a job on other hosts, and of services that let them find each other: ssh, Ray, JAX,
//! Slurm. They name no call of RDMA; a job that does not start has them all the same.

use super::{ANY_FAILED, JOB, Phrase, row};
use crate::explain::ErrorClass;
use crate::explain::errno::{
    EADDRINUSE, ECONNABORTED, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ENETUNREACH, EPIPE, ETIMEDOUT,
};

const LOOK_FOR_FIRST: &str =
    "The line has no reason of its own: look for the first error of that process.";

pub(super) const TABLE: &[Phrase] = &[
    row(
        &[
            "ssh: connect to host|ssh: could not resolve|ssh_exchange_identification|ssh not successful|\
             host key verification failed|permission denied (publickey|ssh: handshake failed|ssh timed out|\
             permission denied, please try again|unable to ssh|cannot ssh|failed to ssh|could not ssh",
        ],
        ErrorClass::OutOfBand,
        "a host cannot be reached over ssh",
        "Its name has no address, it does not answer, or it does not accept the key. Launchers start the \
         processes of a job over ssh: it must work without a question from the first host to all others.",
    )
    .unless("sshd|github|gitlab|git@|bitbucket"),
    row(
        &["command 'ssh|command '['ssh|ssh exited with|pdsh@", "exit status|exit code|exited with|fail|refused|denied"],
        ErrorClass::OutOfBand,
        "a host cannot be reached over ssh",
        "ssh ends with 255 if the host does not answer or does not accept the key, otherwise with the \
         result of the program that it started there.",
    ),
    row(
        &["failed to connect to gcs|connect to gcs|request to gcs|gcs_rpc_client|gcs_utils|gcs server|gcs has", ANY_FAILED],
        ErrorClass::OutOfBand,
        "a node of Ray cannot reach the first one",
        "Ray's service for the cluster (GCS, port 6379 of the first node) ended, is not started, or is not \
         reached at that address.",
    ),
    row(
        &["coordination service|coordination_service|coordinationservice|/job:jax_worker|pjrt/distributed", ANY_FAILED],
        ErrorClass::NoAnswer,
        "not all processes of the job answer",
        "A process ended, hangs, or cannot reach the first one, whose service all report to: look for the \
         first error of all processes.",
    ),
    row(
        &["error received from peer ipv|failed to connect to all addresses|failed to connect to remote host|failed to pick subchannel|\
             statuscode.unavailable"],
        ErrorClass::OutOfBand,
        "a process of the job does not answer over gRPC",
        "It ended, does not listen yet, or listens elsewhere: look at its log first.",
    ),
    row(
        &["not enough slots|slots that were requested|all nodes which are allocated for this job are already filled"],
        ErrorClass::Other,
        "the launcher of MPI has fewer slots than processes",
        "The list of hosts, or the batch system, allows fewer processes than were asked for.",
    ),
    row(
        &[
            "*** process received signal|received signal sig|caught signal|fatal python error|\
             (sigsegv) received|(sigabrt) received|(sigbus) received|signal 11 (sig|signal 6 (sig|signal 7 (sig|\
             asyncenginedeaderror|background loop has errored|exits with return code|exitcode  :|killing subprocess|\
             actorhandlenotfounderror|nodediederror|workercrashederror|localrayletdiederror",
        ],
        ErrorClass::Other,
        "a process of the job ended with an error",
        LOOK_FOR_FIRST,
    ),
    row(
        &[
            "shard|worker|workers|rank|ranks|engine|scheduler|child process|subprocess|trainer|executor",
            "crashed|signaled to shutdown|terminated with signal|killed by signal|exited unexpectedly|\
             terminated unexpectedly|exited with signal",
        ],
        ErrorClass::Other,
        "a process of the job ended with an error",
        LOOK_FOR_FIRST,
    ),
    row(
        &[
            "segfault at|general protection fault|traps:",
            "in libna|in libuc|in libmpi|in libnccl|in librccl|in libfabric|in libibverbs|in libmlx|in librdmacm|\
             in libpsm|in libopen-pal|in libhcoll|in libsharp|in libnvshmem|in mca_|in libefa|in libmercury",
        ],
        ErrorClass::Other,
        "a process of the job ended with an error",
        LOOK_FOR_FIRST,
    ),
];

/// What the words of a failure tell of a line that names a job, and nothing else.
pub(super) const ACTIONS: &[Phrase] = &[
    row(
        &[JOB],
        ErrorClass::OutOfBand,
        "a TCP connection between processes of a job failed",
        "The other process ended, does not listen yet, or has another address: look at its log first.",
    )
    .only_with(&[ECONNREFUSED, ECONNRESET, ECONNABORTED, EPIPE, EADDRINUSE])
    .unless(NOT_A_JOB),
    row(
        &[JOB],
        ErrorClass::NoAnswer,
        "a process of the job does not answer",
        "It hangs, ended, or is not reached: look for its own first error.",
    )
    .only_with(&[ETIMEDOUT, EHOSTUNREACH, ENETUNREACH])
    .unless(NOT_A_JOB),
    row(
        &[JOB, "timed out|deadline exceeded|deadline_exceeded|heartbeat timeout|not responding|unresponsive|did not respond"],
        ErrorClass::NoAnswer,
        "a process of the job does not answer",
        "It hangs, ended, or is not reached: look for its own first error.",
    )
    .unless(NOT_A_JOB),
    row(
        &[JOB, "connect|connection|connecting|reconnect|socket|resolve|resolving|listen|address already", ANY_FAILED],
        ErrorClass::OutOfBand,
        "a TCP connection between processes of a job failed",
        "The other process ended, does not listen yet, or has another address: look at its log first.",
    )
    .unless(NOT_A_JOB),
];

/// Programs whose connections are not those of a job.
pub(super) const NOT_A_JOB: &str = "http|requests.|curl|wget|nginx|mysql|postgres|redis|git |github|apt |apt-|pip |pip3|urllib|docker|kube|dbus|mount|grpc|etcd|\
                         systemd|snap|ssh|cron|ntp|dns|mail|smtp|ldap|vnc|x11";
