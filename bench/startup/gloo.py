"""A rank of PyTorch over gloo: its start, up to its first all-reduce. The argument names the file of moments."""

import struct
import sys
import time

started = time.clock_gettime_ns(time.CLOCK_MONOTONIC)

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
joined = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
value = torch.ones(1)
dist.all_reduce(value)
called = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
if value.item() != dist.get_world_size():
    sys.exit(f"gloo: sum {value.item()}")
with open(sys.argv[1], "ab", buffering=0) as file:
    file.write(struct.pack("3q", started, joined, called))
dist.destroy_process_group()
