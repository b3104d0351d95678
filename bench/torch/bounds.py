"""What figures.py prints below its table: groups, deaths, and whether results are gloo's."""

import contextlib
import os
import resource
import signal
import statistics
import tempfile
import time
from datetime import timedelta

import rondo_torch
import torch
import torch.distributed as dist

SIZES = (1, 7, 1000, 4096, 100_003, 1 << 20)
TYPES = (torch.float32, torch.float64, torch.float16, torch.int32, torch.int64, torch.uint8)
OPS = (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX)


def percentile(samples, part):
	return sorted(samples)[min(len(samples) - 1, int(len(samples) * part))]


def descriptors():
	return len(os.listdir("/proc/self/fd"))


def make_groups(number, size):
	"""Groups of all ranks, and the seconds that each took: without torch's own barrier."""
	store, parent = dist.distributed_c10d._get_default_store(), rondo_torch._rondo_group(dist.group.WORLD)
	groups, seconds = [], []
	for _ in range(number):
		dist.barrier()
		before = time.perf_counter()
		arguments = store, dist.get_rank(), size, timedelta(seconds=60), parent, list(range(size))
		groups.append(rondo_torch._C.create(*arguments))
		seconds.append(time.perf_counter() - before)
	return groups, seconds


def groups(size):
	soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
	resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
	before = descriptors()
	made, seconds = make_groups(500, size)
	each = (descriptors() - before) / len(made)
	tensor = torch.ones(1)
	for group in made:
		group.allreduce([tensor]).wait()
	used = (descriptors() - before) / len(made)
	yield "new_group without torch's barrier, µs", f"{statistics.median(seconds) * 1e6:,.0f}", "2,000 at most"
	yield "the slowest tenth, µs", f"{percentile(seconds, 0.9) * 1e6:,.0f}", ""
	yield "descriptors of a group, then with a call", f"{each:.2f}, {used:.2f}", "2 at most"
	yield "live groups at 1,024 descriptors", f"{len(made)}", "500"
	del made
	resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def same_bits(gloo):
	"""Cases whose results are gloo's, bit for bit, and all cases."""
	same = cases = 0
	torch.manual_seed(dist.get_rank())
	for kind in TYPES:
		for op in OPS:
			for count in SIZES:
				tensor = (torch.rand(count) * 100).to(kind)
				twin = tensor.clone()
				dist.all_reduce(tensor, op)
				dist.all_reduce(twin, op, group=gloo)
				same += tensor.numpy().tobytes() == twin.numpy().tobytes()
				cases += 1
	yield "all_reduce: results of gloo's bits", f"{same} of {cases}", "all"


def die_or_wait(rank, store, pipe, workers):
	dist.init_process_group("rondo", init_method=f"file://{store}", rank=rank, world_size=2)
	tensor = torch.ones(1000)
	for _ in range(3):
		dist.all_reduce(tensor)
	if rank == 1:
		for _ in range(workers):
			if os.fork() == 0: # as a DataLoader's worker
				signal.alarm(30)
				signal.pause()
		os.write(pipe, f"{time.monotonic()} ".encode())
		os.kill(os.getpid(), signal.SIGKILL)
	group = rondo_torch._rondo_group(dist.group.WORLD)
	try:
		while True: # not dist.all_reduce(): torch 2.4 first prints the tensor of a call that failed, into a log
			group.allreduce([tensor]).wait()
	except rondo_torch.RondoError as error:
		named = time.monotonic()
		assert error.name == "RONDO_DIED" and "rank 1" in str(error), error
		os.write(pipe, f"{named} ".encode())


def kill_once(workers):
	"""Seconds from a rank's death to its name in the other's exception."""
	read, write = os.pipe()
	ranks = []
	with tempfile.TemporaryDirectory() as directory:
		for rank in range(2):
			ranks.append(os.fork())
			if ranks[-1] == 0:
				os.setpgid(0, 0)
				with contextlib.suppress(BaseException):
					die_or_wait(rank, os.path.join(directory, "store"), write, workers)
				os._exit(0)
		for rank in ranks:
			os.waitpid(rank, 0)
	with contextlib.suppress(ProcessLookupError): # the dead rank's workers
		os.killpg(ranks[1], signal.SIGKILL)
	times = [float(text) for text in os.read(read, 100).split()]
	os.close(read)
	os.close(write)
	return max(times) - min(times) if len(times) == 2 else float("nan")


def deaths(kills):
	for workers, name in ((0, ""), (2, ", with two forked workers")):
		ms = [kill_once(workers) * 1000 for _ in range(kills)]
		yield f"a killed rank is named, ms{name}", f"{statistics.median(ms):.1f}", "5 at most"
		yield "the slowest tenth, ms", f"{percentile(ms, 0.9):.1f}", ""


def print_rows(rows):
	for name, value, bound in rows:
		print(f"| {name} | {value} | {bound} |", flush=True)
