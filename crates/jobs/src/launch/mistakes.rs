//! Advice in common guides that is wrong, and why.

use super::planned_launch::Reason;
use super::{Framework, openmpi};

/// What people type who followed a guide, by framework.
pub(super) fn of(framework: Framework, series: Option<openmpi::Series>) -> Vec<Reason> {
    let mut reasons = match framework {
        Framework::Mpi => open_mpi(series),
        Framework::Torch => torch(),
        Framework::Tensorflow { .. } => vec![reason(
            "protocol=\"grpc+verbs\"",
            "it went with TensorFlow 2: gRPC alone is left between hosts, and RDMA is NCCL's, between GPUs",
        )],
        Framework::Horovod => vec![reason("horovodrun", super::horovod::LEGACY)],
    };
    reasons.push(reason(
        "NCCL_IB_GID_INDEX=3",
        "an index is a place in a table that differs from card to card and from host to host: NCCL from 2.21 on finds the \
         GID by its family and RoCE's version, which are checked across all hosts and set instead",
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
        "wrong: `^` holds for the whole list, so `self` and `vader` are left out too. With Open MPI 5 nothing starts then; \
         with Open MPI 4 a rank that sends to itself crashes, and ranks of one host talk over TCP. Nor does it ask for RDMA: \
         no BTL that is left uses it, and whether UCX is taken beside them is up to the build (Debian's leaves it out) and to \
         the device. Use instead: {instead}"
    );
    let mut reasons = vec![reason("--mca btl ^openib,self,vader", &why)];
    reasons.push(reason(
        "--mca btl openib,self,vader",
        "openib is the old RDMA transport: Open MPI 4 warns of it and leaves InfiniBand to UCX, Open MPI 5 has none",
    ));
    reasons.push(reason(
        "--mca btl ^openib --mca btl_tcp_if_include eth0",
        "only TCP is left then, however fast the fabric, unless Open MPI takes UCX by itself; and names of interfaces differ from host to host: a network such \
         as 10.1.0.0/24 does not",
    ));
    reasons
}

fn torch() -> Vec<Reason> {
    vec![
        reason(
            "python -m torch.distributed.launch",
            "replaced by torchrun, which hands the local rank on by LOCAL_RANK and not as an argument",
        ),
        reason(
            "--rdzv_backend=c10d --node_rank=1",
            "c10d gives ranks by itself and reads no --node_rank; a fixed list of hosts needs no more than \
             --master_addr and --master_port",
        ),
    ]
}

fn reason(what: &str, why: &str) -> Reason {
    Reason { what: what.to_owned(), why: why.to_owned() }
}
