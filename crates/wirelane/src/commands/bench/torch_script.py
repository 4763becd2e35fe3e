"""Measures collective operations with torch.distributed, as nccl-tests does.

Shipped inside wirelane (`wirelane bench torch --print-script`) and run by the user's own Python: once, to start the ranks of
one host itself, or once per rank by mpirun, torchrun or srun. Rank 0 prints one JSON object per line on stdout;
`wirelane bench torch --read` reads them.
"""

import argparse
import datetime
import json
import os
import signal
import socket
import sys
import time


def rank_of_launcher():
    """Rank, number of ranks and local rank, from the variables of torchrun, Open MPI or Slurm."""
    for names in (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ):
        if all(name in os.environ for name in names):
            return tuple(int(os.environ[name]) for name in names)
    return 0, 1, 0


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--op", choices=sorted(OPERATIONS), default="all_reduce")
    parser.add_argument("--from-bytes", type=int, default=1 << 20)
    parser.add_argument("--to-bytes", type=int, default=1 << 30)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--processes", type=int, help="number of ranks to start on this host")
    return parser.parse_args()


def start_ranks(ranks):
    """Forks one child per rank and returns in each; the parent waits for all, and kills the others when one fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(ranks))
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            return
        children.append(child)

    def end(*_):
        for child in children:
            os.kill(child, signal.SIGKILL)
        sys.exit(1)

    signal.signal(signal.SIGTERM, end)
    while children:
        child, status = os.wait()
        children.remove(child)
        if status != 0:
            end()
    sys.exit(0)


def emit(kind, **fields):
    print(json.dumps({"wirelane_torch": kind, **fields}), flush=True)


class AllReduce:
    in_place, reduction = True, "sum"

    def __init__(self, torch, dist, count, ranks, device):
        self.dist = dist
        self.data = torch.ones(count, device=device)
        self.right = float(ranks)

    def __call__(self):
        self.dist.all_reduce(self.data)

    def reset(self):
        self.data.fill_(1.0)

    def result(self):
        return self.data

    @staticmethod
    def factor(ranks):
        return 2.0 * (ranks - 1) / ranks


class AllGather:
    in_place, reduction = False, None

    def __init__(self, torch, dist, count, ranks, device):
        self.gather = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
        self.mine = torch.ones(count // ranks, device=device)
        self.all = torch.zeros(count // ranks * ranks, device=device)
        self.right = 1.0

    def __call__(self):
        self.gather(self.all, self.mine)

    def reset(self):
        self.all.zero_()

    def result(self):
        return self.all

    @staticmethod
    def factor(ranks):
        return (ranks - 1) / ranks


class ReduceScatter:
    in_place, reduction = False, "sum"

    def __init__(self, torch, dist, count, ranks, device):
        self.scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
        self.all = torch.ones(count // ranks * ranks, device=device)
        self.mine = torch.zeros(count // ranks, device=device)
        self.right = float(ranks)

    def __call__(self):
        self.scatter(self.mine, self.all)

    def reset(self):
        self.mine.zero_()

    def result(self):
        return self.mine

    @staticmethod
    def factor(ranks):
        return (ranks - 1) / ranks


OPERATIONS = {"all_reduce": AllReduce, "all_gather": AllGather, "reduce_scatter": ReduceScatter}


def measure(torch, dist, work, options, device):
    """Average seconds of one operation over all ranks, and the number of wrong values."""

    def synchronize():
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    for _ in range(options.warmup):
        work()
    synchronize()
    # With device_ids, NCCL does not guess the device and warn.
    dist.barrier(device_ids=[device.index] if device.type == "cuda" else None)
    started = time.perf_counter()
    for _ in range(options.iterations):
        work()
    synchronize()
    seconds = (time.perf_counter() - started) / options.iterations
    work.reset()
    work()
    synchronize()
    wrong = int((work.result() != work.right).sum().item())
    both = torch.tensor([seconds, float(wrong)], dtype=torch.float64, device=device)
    dist.all_reduce(both)
    return both[0].item() / dist.get_world_size(), int(both[1].item())


def sizes(first, last):
    size = max(first, 4)
    while size <= last:
        yield size
        size *= 2


def main():
    options = arguments()
    if options.processes:
        start_ranks(options.processes)  # before PyTorch starts threads, which a fork would lose
    import torch
    import torch.distributed as dist

    rank, ranks, local = rank_of_launcher()
    if options.backend == "nccl" and not torch.cuda.is_available():
        sys.exit("RuntimeError: PyTorch sees no GPU; --backend gloo measures without")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29577")
    device = torch.device("cuda", local) if options.backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    limit = datetime.timedelta(seconds=120)
    dist.init_process_group(options.backend, rank=rank, world_size=ranks, timeout=limit)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    identity = {"rank": rank, "host": socket.gethostname(), "device": local, "name": name}
    identities = [None] * ranks
    dist.all_gather_object(identities, identity)
    if rank == 0:
        nccl = ".".join(map(str, torch.cuda.nccl.version())) if device.type == "cuda" else None
        emit(
            "start",
            torch=torch.__version__,
            backend=options.backend,
            nccl=nccl,
            operation=options.op,
            started=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            ranks=identities,
        )
    kind = OPERATIONS[options.op]
    speeds = []
    for size in sizes(options.from_bytes, options.to_bytes):
        count = max(size // 4, ranks)
        work = kind(torch, dist, count, ranks, device)
        seconds, wrong = measure(torch, dist, work, options, device)
        algorithm = count * 4 / seconds / 1e9
        speeds.append(algorithm * kind.factor(ranks))
        if rank == 0:
            emit(
                "row",
                size_bytes=count * 4,
                count=count,
                datatype="float",
                reduction=kind.reduction,
                in_place=kind.in_place,
                time_us=seconds * 1e6,
                algorithm_gb_per_second=algorithm,
                bus_gb_per_second=speeds[-1],
                wrong=wrong,
            )
    if rank == 0:
        emit("end", average_bus_gb_per_second=sum(speeds) / max(len(speeds), 1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
