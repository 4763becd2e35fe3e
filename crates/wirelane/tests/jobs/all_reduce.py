"""Every rank gives its number, all get the sum, by gloo."""

import os
import socket
import sys

import torch
import torch.distributed

torch.distributed.init_process_group("gloo")
rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
tensor = torch.full((1024,), float(rank + 1))
torch.distributed.all_reduce(tensor)
assert tensor.eq(ranks * (ranks + 1) / 2).all(), tensor
# In one piece: ranks of a host share a pipe, and `print` writes the line's end apart.
sys.stdout.write(f"rank {rank} of {ranks} on {socket.gethostname()}, local {os.environ['LOCAL_RANK']}\n")
sys.stdout.flush()
torch.distributed.destroy_process_group()
