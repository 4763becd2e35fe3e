//! Wrong advice in common guides, and why it is wrong.

use super::planned_launch::Reason;
use super::{Framework, openmpi};

/// Wrong arguments from guides, by framework.
pub(super) fn of(framework: Framework, series: Option<openmpi::Series>) -> Vec<Reason> {
    let mut reasons = match framework {
        Framework::Mpi => open_mpi(series),
        Framework::Torch => torch(),
        Framework::Tensorflow { .. } => vec![reason(
            "protocol=\"grpc+verbs\"",
            "removed in TensorFlow 2: hosts use only gRPC, and RDMA is used by NCCL between GPUs",
        )],
        Framework::Horovod => vec![reason("horovodrun", super::horovod::LEGACY)],
    };
    reasons.push(reason(
        "NCCL_IB_GID_INDEX=3",
        "an index of the GID table differs between NICs and hosts: NCCL 2.21 and newer selects the GID by address family \
         and RoCE version, which are checked across all hosts and set instead",
    ));
    reasons
}

fn open_mpi(series: Option<openmpi::Series>) -> Vec<Reason> {
    let instead = match series {
        Some(openmpi::Series::Four) => {
            "`--mca pml ucx --mca osc ucx --mca btl ^openib` (Open MPI 4, as here)"
        }
        Some(openmpi::Series::Five) => {
            "`--mca pml ucx --mca osc ucx` (Open MPI 5, as here: it has no openib, and `vader` is called `sm`)"
        }
        None => {
            "`--mca pml ucx --mca osc ucx --mca btl ^openib` with Open MPI 4, `--mca pml ucx --mca osc ucx` with Open MPI 5, \
             which has no openib"
        }
    };
    let why = format!(
        "wrong: `^` applies to the whole list, so `self` and `vader` are excluded too. Open MPI 5 then does not start; \
         with Open MPI 4 a rank that sends to itself crashes, and ranks of one host use TCP. It does not select RDMA either: \
         no remaining BTL uses it, and whether UCX is used depends on the build (Debian's excludes it) and on \
         the device. Use instead: {instead}"
    );
    let mut reasons = vec![reason("--mca btl ^openib,self,vader", &why)];
    reasons.push(reason(
        "--mca btl openib,self,vader",
        "openib is the old RDMA transport: Open MPI 4 warns about it and uses UCX for InfiniBand, Open MPI 5 does not have it",
    ));
    reasons.push(reason(
        "--mca btl ^openib --mca btl_tcp_if_include eth0",
        "only TCP remains, unless Open MPI selects UCX by default; and interface names differ between hosts: use a network such \
         as 10.1.0.0/24",
    ));
    reasons
}

fn torch() -> Vec<Reason> {
    vec![
        reason(
            "python -m torch.distributed.launch",
            "replaced by torchrun, which passes the local rank in LOCAL_RANK and not as an argument",
        ),
        reason(
            "--rdzv_backend=c10d --node_rank=1",
            "c10d assigns ranks itself and ignores --node_rank; a fixed list of hosts needs only \
             --master_addr and --master_port",
        ),
    ]
}

fn reason(what: &str, why: &str) -> Reason {
    Reason { what: what.to_owned(), why: why.to_owned() }
}
