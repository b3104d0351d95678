"""PyTorch's gloo group, as any script opens it, and after it a comm of Rondo in the same job."""

import ctypes
import sys

import torch
import torch.distributed as dist

F32, SUM = 8, 0


def check(rondo, err):
    if err:
        rondo.rondo_last_error.restype = ctypes.c_char_p
        sys.exit("rondo: " + rondo.rondo_last_error().decode())


def sum_with_rondo(library, value):
    rondo = ctypes.CDLL(library)
    comm, mine, total = ctypes.c_void_p(), ctypes.c_float(value), ctypes.c_float()
    check(rondo, rondo.rondo_comm_create(ctypes.byref(comm), None))
    check(
        rondo,
        rondo.rondo_all_reduce(
            comm, ctypes.byref(mine), ctypes.byref(total), ctypes.c_size_t(1), F32, SUM, None
        ),
    )
    check(rondo, rondo.rondo_comm_destroy(comm))
    return total.value


dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
both = [value.item()]
dist.all_reduce(value)
if len(sys.argv) > 1:
    both.append(sum_with_rondo(sys.argv[1], both[0]))
    dist.barrier()
# In one write: the ranks may share a file.
words = [f"rank {dist.get_rank()} of {dist.get_world_size()}: gloo {value.item():g}", *both[1:]]
sys.stdout.write(" ".join(map(str, words)) + "\n")
dist.destroy_process_group()
