"""Tensors in memory that ranks map: DDP's buckets, forked children, threads, and the memory's end."""

import contextlib
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings

import ranks
import rondo_torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

LEAST = 16 << 10  # elements of 64 KiB
DIRECT = {"one_shot", "two_shot"}


def block(is_mapped):
	return rondo_torch.use_memory() if is_mapped else contextlib.nullcontext()


def regions():
	"""How many regions of 64 KiB this process has, and how many it maps. Links, and what watches peers, are no regions."""
	own = mapped = 0
	for name in os.listdir("/proc/self/fd"):
		path = f"/proc/self/fd/{name}"
		# The folder's own is closed by now.
		with contextlib.suppress(FileNotFoundError):
			own += "memfd:rondo " in os.readlink(path) and os.stat(path).st_size == 4 * LEAST
	with open("/proc/self/maps", encoding="utf-8") as maps:
		for line in maps:
			begin, end = (int(address, 16) for address in line.split()[0].split("-"))
			mapped += "memfd:rondo " in line and end - begin == 4 * LEAST
	return own, mapped


def algorithms(trace):
	"""Those of the large all-reduces in a trace, in order of the calls."""
	with open(trace, encoding="utf-8") as file:
		events = [event for event in json.loads(file.read().rstrip(",\n") + "]") if event["ph"] == "X"]
	steps = [event["args"] for event in events if event["cat"] == "all_reduce"]
	large = {step["call"]: step["algorithm"] for step in steps if step["block_bytes"] >= 4 * LEAST}
	return [large[call] for call in sorted(large)]


def train(is_mapped, is_view):
	"""Losses and parameters of 6 steps, whose three buckets are rebuilt after the first."""

	def run(rank, size):
		torch.manual_seed(1)
		layers = [torch.nn.Linear(20, 16000), torch.nn.ReLU(), torch.nn.Linear(16000, 20), torch.nn.Linear(20, 16000)]
		network = torch.nn.Sequential(*layers)
		with block(is_mapped):
			model = DistributedDataParallel(network, bucket_cap_mb=1, gradient_as_bucket_view=is_view)
		optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
		torch.manual_seed(2 + rank)
		losses = []
		for _ in range(6):
			optimizer.zero_grad()
			losses.append(model(torch.randn(8, 20)).square().mean())
			losses[-1].backward()
			optimizer.step()
		values = [*losses, *network.parameters()]
		return torch.cat([value.detach().flatten() for value in values]).numpy().tobytes()

	return run


def mapped_buckets(rank, size):
	"""Of DDP's models without a block: before a step, after two, and when the model has gone."""
	counts = []
	for is_view in (False, True):
		model = DistributedDataParallel(torch.nn.Linear(LEAST, 1, bias=False), gradient_as_bucket_view=is_view)
		counts.append(regions()[0])
		for _ in range(2):
			model(torch.ones(LEAST)).backward()
		counts.append(regions()[0])
		del model
		gc.collect()
		ranks.meet(rank, size)
		counts.append(regions()[0])
	plain = torch.ones(LEAST)
	return counts + [regions()[0], plain.numel()]


def with_children(rank, size):
	"""Workers read mapped tensors, and a child writes and frees its copies, all forked in the block. New ones are plain."""
	with rondo_torch.use_memory():
		data = torch.arange(float(LEAST)).view(8, LEAST // 8)
		batches = list(torch.utils.data.DataLoader(data, batch_size=2, num_workers=2))
		assert torch.equal(torch.cat(batches), data)
		before, child = regions(), os.fork()
		assert before == (1, 1)
		if child == 0:
			seen, plain = [], torch.ones(LEAST)
			seen.append(regions())
			with rondo_torch.use_memory():
				mapped = torch.ones(LEAST)
			seen.append(regions())
			data[0, 0] = -1
			del data
			seen.append(regions())
			is_right = seen == [(0, 1), (1, 2), (1, 1)] and torch.equal(plain, mapped)
			os._exit(0 if is_right else 1)
		assert os.waitpid(child, 0)[1] == 0
	assert regions() == before
	ranks.meet(rank, size)
	assert data[0, 0].item() == 0
	dist.all_reduce(data)
	assert data[1, 0].item() == size * LEAST // 8
	return True


def with_a_child_in_backward(rank, size):
	"""A child runs the backward pass of its parent's model, whose call is refused there. Its buckets are copies."""
	kept = []

	def keep(state, bucket):
		kept.append(bucket.buffer())
		return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0])

	model = DistributedDataParallel(torch.nn.Linear(LEAST, 1, bias=False))
	model.register_comm_hook(None, keep)
	for _ in range(2):
		model(torch.ones(LEAST)).backward()
		model.zero_grad()
	model(torch.ones(LEAST)) # the next backward pass has buckets to write
	child = os.fork()
	if child == 0:
		try:
			model.module(torch.full((LEAST,), 9.0)).backward()
		except RuntimeError:
			os._exit(0 if kept[-1][-1].item() == 9 else 1)
		os._exit(2)
	assert os.waitpid(child, 0)[1] == 0
	return kept[-1].max().item()


def given_back(rank, size):
	"""With the last tensor here, and with the next call at the peers."""
	with rondo_torch.use_memory():
		tensors = [torch.ones(LEAST) for _ in range(20)]
		small = torch.ones(LEAST - 1)
	assert regions()[0] == 20
	for tensor in tensors:
		dist.all_reduce(tensor)
	assert all(tensor[-1].item() == size for tensor in tensors)
	assert regions() == (20, 20 * size)
	# Others may be in the next call, but for this.
	ranks.meet(rank, size)
	view = tensors[0][:1]
	del tensors, tensor
	until = time.monotonic() + 20
	while regions()[0] != 1:
		# A thread of the library drops its part of the last work a moment after the call's end.
		assert time.monotonic() < until, regions()
	del view
	assert regions()[0] == 0 and small[0].item() == 1
	with rondo_torch.use_memory():
		last = torch.ones(LEAST)
	dist.all_reduce(last)
	assert regions() == (1, size)
	return True


def in_threads(rank, size):
	"""Threads make and drop tensors at once, and hand them over. A thread without a block has plain ones."""
	wrong, made = [], [[] for _ in range(4)]
	barrier = threading.Barrier(4)

	def use(own):
		barrier.wait()
		with block(own != 3):
			for count in range(300):
				tensor = torch.full((LEAST,), float(count))
				made[own].append(tensor)
				if tensor.sum().item() != count * LEAST:
					wrong.append(count)
				made[(own + 1) % 4][:-2] = []

	threads = [threading.Thread(target=use, args=(own,)) for own in range(4)]
	for thread in threads:
		thread.start()
	for thread in threads:
		thread.join()
	del made[:3]
	assert regions() == (0, 0) and not wrong and made
	return True


def without_descriptors(rank, size):
	"""Regions take a quarter of the descriptors at most. Where there are none, tensors are plain, with a warning."""
	_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
	resource.setrlimit(resource.RLIMIT_NOFILE, (80, most))
	with rondo_torch.use_memory():
		tensors = [torch.ones(LEAST) for _ in range(30)]
		assert regions()[0] == 20
		del tensors[1:]
		used = []
		with contextlib.suppress(OSError):
			while True:
				used.append(os.dup(0))
		with warnings.catch_warnings(record=True) as seen:
			warnings.simplefilter("always")
			tensors.append(torch.ones(LEAST))
	for descriptor in used:
		os.close(descriptor)
	assert regions()[0] == 1
	return [str(warning.message).split("\n")[0] for warning in seen]


def shared_files():
	"""Those of the library. The benchmarks' scripts have theirs, and torch."""
	scripts = "rondo-peers.", "rondo-hosts.", "rondo-fuzz-"
	return {name for name in os.listdir("/dev/shm") if name.startswith("rondo") and not name.startswith(scripts)}


WAYS = {"return": 0, "exception": 1, "_exit": 5}
kept = []


def end_by(way, rank, store):
	"""Tensors, and a model, outlive the group and the interpreter's own objects."""
	ranks.join(store, rank, 2)
	with rondo_torch.use_memory():
		kept.append(torch.ones(LEAST))
		kept.append(DistributedDataParallel(torch.nn.Linear(LEAST, 1)))
	for _ in range(3):
		kept[1](kept[0]).backward()
	if rank == 0:
		dist.destroy_process_group()
	if way == "_exit":
		os._exit(5)
	if way == "exception":
		raise ValueError


def end_in_all_ways(directory):
	"""Forks two ranks for each way, which return from here, and prints how they ended. Interpreters end as usual."""
	children = []
	for way in WAYS:
		for rank in range(2):
			child = os.fork()
			if child == 0:
				end_by(way, rank, os.path.join(directory, way))
				return
			children.append(child)
	print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])


class Memory(unittest.TestCase):
	def test_buckets_take_direct_access_with_the_same_losses(self):
		for is_view in (False, True):
			results = []
			for is_mapped in (False, True):
				with tempfile.TemporaryDirectory() as directory:
					trace = os.path.join(directory, "trace")
					with unittest.mock.patch.dict(os.environ, RONDO_TRACE=trace):
						results += ranks.run(2, train(is_mapped, is_view))
					ran = algorithms(trace)
				# Buckets before and after the first step. Those that are gradients, too, are mapped where asked for.
				self.assertGreaterEqual(len(ran), 12)
				is_direct = is_mapped or not is_view
				self.assertEqual(set(ran) <= DIRECT, is_direct, ran)
				self.assertEqual(set(ran) & DIRECT != set(), is_direct, ran)
			self.assertEqual(results[:2], results[2:])

	def test_a_bucket_is_mapped_where_it_is_no_gradient(self):
		self.assertEqual(ranks.run(2, mapped_buckets), [[1, 1, 0, 0, 0, 0, 0, LEAST]] * 2)
		self.assertEqual(ranks.run(2, mapped_buckets, backend="gloo"), [[0, 0, 0, 0, 0, 0, 0, LEAST]] * 2)

	def test_forked_children(self):
		self.assertEqual(ranks.run(2, with_children), [True] * 2)
		self.assertEqual(ranks.run(2, with_a_child_in_backward), [2] * 2)

	def test_memory_is_given_back(self):
		self.assertEqual(ranks.run(2, given_back), [True] * 2)
		self.assertEqual(ranks.run(3, given_back), [True] * 3)

	def test_threads(self):
		self.assertEqual(ranks.run(1, in_threads), [True])

	def test_without_descriptors(self):
		(reasons,) = ranks.run(1, without_descriptors)
		self.assertEqual(len(reasons), 1, reasons)
		self.assertRegex(reasons[0], "plain memory: .*Too many open files")

	def test_ends_of_processes(self):
		before = shared_files()
		with tempfile.TemporaryDirectory() as directory:
			done = subprocess.run(
				[sys.executable, __file__, "end", directory],
				stdout=subprocess.PIPE,
				stderr=subprocess.PIPE,
				text=True,
				timeout=100,
			)
		self.assertEqual(done.stdout, f"{[status for status in WAYS.values() for _ in range(2)]}\n", done.stderr)
		self.assertEqual(shared_files() - before, set())


if __name__ == "__main__":
	if sys.argv[1:2] == ["end"]:
		end_in_all_ways(sys.argv[2])
	else:
		unittest.main()
