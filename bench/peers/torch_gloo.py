#!/usr/bin/env python3
"""PyTorch's gloo backend on CUDA tensors: what an all-reduce takes there, with several ranks on a GPU.

Prints the time of a call in microseconds: of the slowest rank, and the median of the calls. Where
PyTorch or a GPU is missing it says so on stderr, and exits with 3.
"""

import argparse
import datetime
import os
import statistics
import sys
import tempfile
import time

WARM_UP = 2


def measure(rank, options, store):
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group(
        "gloo",
        init_method="file://" + store,
        rank=rank,
        world_size=options.ranks,
        timeout=datetime.timedelta(seconds=60),
    )
    tensor = torch.empty(options.size // 4, dtype=torch.float32, device="cuda")
    times = []
    for _ in range(WARM_UP + options.iterations):
        tensor.fill_(1)
        torch.cuda.synchronize()
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(tensor)
        torch.cuda.synchronize()
        slowest = torch.tensor([time.perf_counter() - began], dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        times.append(slowest.item())
    if not bool((tensor == options.ranks).all()):
        sys.exit(f"rank {rank}: gloo's sum is wrong")
    if rank == 0:
        print(f"{statistics.median(times[WARM_UP:]) * 1e6:.2f}", flush=True)
    dist.destroy_process_group()


def skip(reason):
    print(reason, file=sys.stderr)
    sys.exit(3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--size", type=int, default=64 << 20, help="bytes")
    parser.add_argument("--iterations", type=int, default=10)
    options = parser.parse_args()
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        skip(f"PyTorch is not there ({error})")
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        skip("this PyTorch has no gloo")
    if torch.cuda.device_count() == 0:
        skip("PyTorch sees no GPU")
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        torch.multiprocessing.spawn(measure, (options, store), nprocs=options.ranks)


if __name__ == "__main__":
    main()
