#!/usr/bin/env python3
"""
figures.py [--ranks N] [--rounds N] [--memory] [--svg FILE]: torch.distributed with Rondo beside gloo, as tables in
Markdown. Both are groups of the same processes, and make their calls in turns, one thread a rank. Times are rank 0's
medians, in microseconds of a call, and the time that a tenth of the rounds exceed (p90). Processor time is all of
rank 0's threads'. "touched" writes the tensor before each call, as a training step does. "without" is DDP's
ratio if communication took no time: a hook leaves each bucket as it is. "waiting" is that of a hook which sums 4 bytes:
ranks only wait for each other. --memory makes Rondo's tensors and models in rondo_torch.use_memory(). --svg draws them:
bars of time, gloo's all of one length. The second table has groups, results and deaths. PYTHONPATH has rondo_torch.
"""

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from datetime import timedelta

os.environ.setdefault("OMP_NUM_THREADS", "1") # as torchrun does: before torch, whose libraries make threads

import bounds
import rondo_torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

assert rondo_torch
SIZES = {"4 B": 1, "4 KiB": 1 << 10, "1 MiB": 1 << 18, "25 MiB": 25 << 18}


def all_reduce(count, group, size, touched=False):
	tensor = torch.ones(count)

	def call():
		if touched:
			tensor.fill_(1)
		dist.all_reduce(tensor, group=group)

	return call


def all_gather(count, group, size):
	tensor = torch.ones(count)
	outputs = [torch.zeros(count) for _ in range(size)]
	return lambda: dist.all_gather(outputs, tensor, group=group)


def broadcast(count, group, size):
	tensor = torch.ones(count)
	return lambda: dist.broadcast(tensor, 0, group=group)


def five_works(count, group, size):
	tensors = [torch.ones(count) for _ in range(5)]

	def call():
		for work in [dist.all_reduce(tensor, group=group, async_op=True) for tensor in tensors]:
			work.wait()

	return call


class Transformer(torch.nn.Module):
	"""Predicts tokens: two layers, 0.9 million parameters."""

	def __init__(self):
		super().__init__()
		layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
		self.embedding = torch.nn.Embedding(2000, 128)
		self.layers = torch.nn.TransformerEncoder(layer, 2)
		self.output = torch.nn.Linear(128, 2000)

	def forward(self, tokens):
		return self.output(self.layers(self.embedding(tokens)))


def leave(state, bucket):
	future = torch.futures.Future()
	future.set_result(bucket.buffer())
	return future


def wait_alone(state, bucket):
	return dist.all_reduce(torch.zeros(1), group=state, async_op=True).get_future().then(lambda _: bucket.buffer())


def step(network, data, group, hook):
	model = DistributedDataParallel(network, process_group=group)
	if hook:
		model.register_comm_hook(group, hook)
	optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

	def call():
		optimizer.zero_grad()
		model(data).square().mean().backward()
		optimizer.step()

	return call


def training(width, group, size, hook=None):
	torch.manual_seed(1)
	layers = [torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU()]
	return step(torch.nn.Sequential(*layers, torch.nn.Linear(width, 10)), torch.randn(32, 64), group, hook)


def transformer(tokens, group, size, hook=None):
	torch.manual_seed(1)
	return step(Transformer(), torch.randint(0, 2000, (4, tokens)), group, hook)


def new_group(count, group, size):
	backend = "rondo" if isinstance(group, rondo_torch.ProcessGroupRondo) else "gloo"

	def call():
		dist.destroy_process_group(dist.new_group(range(size), backend=backend))

	return call


CASES = [
	*((f"all_reduce {name}", all_reduce, count, 200 if count < 1 << 18 else 10) for name, count in SIZES.items()),
	("all_reduce 1 MiB, touched", lambda *a: all_reduce(*a, touched=True), 1 << 18, 10),
	("all_reduce 25 MiB, touched", lambda *a: all_reduce(*a, touched=True), 25 << 18, 3),
	("5 works of all_reduce, 4 B", five_works, 1, 50),
	("5 works of all_reduce, 1 MiB", five_works, 1 << 18, 5),
	("broadcast 4 B", broadcast, 1, 200),
	("broadcast 1 MiB", broadcast, 1 << 18, 10),
	("barrier", lambda count, group, size: lambda: dist.barrier(group=group), 0, 100),
	("all_gather into a list, 1 MiB", all_gather, 1 << 18, 10),
	("all_gather into a list, 25 MiB", all_gather, 25 << 18, 2),
	("new_group and its end", new_group, 0, 2),
	("DDP step, 670 k parameters", training, 780, 5),
	("DDP step, 24.4 M parameters", training, 4900, 1),
	("DDP step, transformer of 0.9 M", transformer, 16, 5),
]  # fmt: skip


def processor_name():
	with open("/proc/cpuinfo") as file:
		lines = [line.split(":")[1].strip() for line in file if line.startswith(("model name", "cpu family", "model\t"))]
	if len(lines) < 3:
		return os.uname().machine
	return f"{lines[2]} (family {lines[0]}, model {lines[1]}), {os.cpu_count()} cores"


STYLE = """
text { font: 12px 'DejaVu Sans', Verdana, Helvetica, sans-serif; fill: #222222; } .title { font-weight: bold; }
.gloo { fill: #b9bec4; } .rondo { fill: #1f77b4; } .end { text-anchor: end; }
"""


def time_text(us):
	return f"{us:.0f} µs" if us < 1000 else f"{us / 1000:.3g} ms" if us < 1e6 else f"{us / 1e6:.3g} s"


def draw(rows, path):
	"""A bar for each backend and case: names and median times, as (name, gloo, rondo)."""
	height, left, width = 30, 230, 430
	with open(path, "w", encoding="utf-8") as out:
		print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {50 + height * len(rows)}"><style>{STYLE}', file=out)
		print('</style><rect width="100%" height="100%" fill="#ffffff"/>', file=out)
		print('<text x="14" y="24" class="title">Time of a call, two ranks: gloo grey, Rondo blue</text>', file=out)
		for k, (name, gloo, rondo) in enumerate(rows):
			y = 42 + height * k
			print(f'<text x="{left - 8}" y="{y + 16}" class="end">{name}</text>', file=out)
			for kind, us, top in (("gloo", gloo, y), ("rondo", rondo, y + 12)):
				length = width * us / gloo
				print(f'<rect x="{left}" y="{top}" width="{length:.1f}" height="11" class="{kind}"/>', file=out)
				print(f'<text x="{left + length + 5:.1f}" y="{top + 10}">{time_text(us)}</text>', file=out)
		print("</svg>", file=out)


def measure(rank, size, store, rounds, memory, svg):
	torch.set_num_threads(1)
	dist.init_process_group(
		"rondo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=timedelta(seconds=120)
	)
	rows, backends = [], [dist.new_group(range(size), backend="gloo"), dist.group.WORLD]
	if rank == 0:
		print(f"{processor_name()}, torch {torch.__version__}\n")
		print("| | gloo, µs | p90 | Rondo, µs | p90 | ratio | without | waiting | processor: gloo | Rondo | ratio |")
		print("|:---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for name, make, count, calls in CASES:
		made = [make(count, backends[0], size)]
		with rondo_torch.use_memory() if memory else contextlib.nullcontext():
			made.append(make(count, backends[1], size))
		if make in (training, transformer):
			made += [make(count, backends[1], size, hook) for hook in (leave, wait_alone)]
		wall, processor = [[] for _ in made], [[] for _ in made]
		for k in range(rounds + 1):
			for at, call in enumerate(made):
				dist.barrier()
				before, before_processor = time.perf_counter(), time.process_time()
				for _ in range(calls):
					call()
				if k:
					wall[at].append((time.perf_counter() - before) / calls * 1e6)
					processor[at].append((time.process_time() - before_processor) / calls * 1e6)
		rows.append((name, *(statistics.median(sample) for sample in wall[:2])))
		if rank == 0:
			columns = []
			for samples, parts in ((wall, (0.9,)), (processor, ())):
				gloo, rondo, *alone = (statistics.median(sample) for sample in samples)
				for sample, median in zip(samples, (gloo, rondo)):
					columns += [f"{it:,.0f}" for it in (median, *(bounds.percentile(sample, part) for part in parts))]
				columns.append(f"{gloo / rondo:.2f}")
				if samples is wall:
					columns += [f"{gloo / it:.2f}" for it in alone] or ["", ""]
			print(f"| {name} | {' | '.join(columns)} |", flush=True)
	if rank == 0 and svg:
		draw(rows, svg)
	found = [*bounds.groups(size), *bounds.same_bits(backends[0])]
	if rank == 0:
		print("\n| | Rondo | bound |\n|:---|---:|:---|")
		bounds.print_rows(found)
	dist.barrier()


def main():
	parser = argparse.ArgumentParser(usage=__doc__)
	parser.add_argument("--ranks", type=int, default=2)
	parser.add_argument("--rounds", type=int, default=15)
	parser.add_argument("--memory", action="store_true")
	parser.add_argument("--svg")
	options = parser.parse_args()
	with tempfile.TemporaryDirectory() as directory:
		for rank in range(options.ranks):
			if os.fork() == 0:
				store = os.path.join(directory, "store")
				measure(rank, options.ranks, store, options.rounds, options.memory, options.svg)
				return
		failed = sum(os.wait()[1] != 0 for _ in range(options.ranks))
	if not failed:
		bounds.print_rows(bounds.deaths(11))
	raise SystemExit(failed)


if __name__ == "__main__":
	main()
