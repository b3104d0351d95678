"""DDP beside gloo, groups, works, futures and objects."""

import os
import resource
import tempfile
import time
import unittest
from datetime import timedelta

import ranks
import rondo_torch
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel


def train(rank, size):
	"""The parameters of a small network after 20 steps, in buckets of which some are not full."""
	torch.manual_seed(1)
	network = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Linear(300, 5))
	model = DistributedDataParallel(network, bucket_cap_mb=0.01)
	optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
	torch.manual_seed(2 + rank)
	for _ in range(20):
		optimizer.zero_grad()
		model(torch.randn(8, 20)).square().sum().backward()
		optimizer.step()
	return torch.cat([p.detach().flatten() for p in network.parameters()]).numpy().tobytes()


def train_sharded(rank, size):
	"""The parameters of a small network after 10 steps, by FSDP on processors, which torch 2 has."""
	from torch.distributed.fsdp import FullyShardedDataParallel

	torch.manual_seed(1)
	network = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Linear(300, 5))
	model = FullyShardedDataParallel(network, device_id=torch.device("cpu"), use_orig_params=True)
	optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
	torch.manual_seed(2 + rank)
	for _ in range(10):
		optimizer.zero_grad()
		model(torch.randn(8, 20)).square().mean().backward()
		optimizer.step()
	with FullyShardedDataParallel.summon_full_params(model):
		return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy().tobytes()


def train_compressed(rank, size):
	"""The parameters after 8 steps with PowerSGD, whose callbacks wait. A hook that waits orders its buckets."""
	parameters = []
	# Gloo's thread, which drops callbacks late, must not drop their group: it would wait for itself.
	train_compressed.group = dist.distributed_c10d._get_default_group()
	for width, waits in (200, False), (700, True):
		torch.manual_seed(1)
		layers = torch.nn.Linear(20, width), torch.nn.Linear(width, width), torch.nn.Linear(width, 5)
		model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.1 if waits else 25)
		optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
		buckets = set()

		def hook(state, bucket, waits=waits, buckets=buckets):
			buckets.add(bucket.index())
			future = powerSGD_hook.powerSGD_hook(state, bucket)
			if waits:
				future.wait()
			return future

		model.register_comm_hook(powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=3), hook)
		torch.manual_seed(2 + rank)
		for _ in range(8):
			optimizer.zero_grad()
			model(torch.randn(8, 20)).square().mean().backward()
			optimizer.step()
		assert (len(buckets) > 1) == waits
		parameters += [p.detach().numpy().tobytes() for p in model.parameters()]
	return b"".join(parameters)


def with_unused_parameters(rank, size):
	class Branches(torch.nn.Module):
		def __init__(self):
			super().__init__()
			self.branches = torch.nn.ModuleList([torch.nn.Linear(3, 1) for _ in range(size)])

		def forward(self, x):
			return self.branches[rank](x)

	model = DistributedDataParallel(Branches(), find_unused_parameters=True)
	for _ in range(3):
		model(torch.ones(2, 3)).sum().backward()
	return all(branch.bias.grad is not None for branch in model.module.branches)


def with_a_hook(rank, size):
	"""A hook that divides in a callback, as torch's fp16 compression does."""
	model = DistributedDataParallel(torch.nn.Linear(3, 1))

	def hook(_, bucket):
		work = dist.all_reduce(bucket.buffer(), async_op=True)
		return work.get_future().then(lambda future: future.value()[0] / size)

	model.register_comm_hook(None, hook)
	model(torch.full((1, 3), float(rank + 1))).sum().backward()
	return model.module.weight.grad.flatten().tolist()


def wait_in_callbacks(rank, size):
	"""A callback waits for a sum, whose callback does so, too."""

	def deepen(depth):
		work = dist.all_reduce(torch.ones(1), async_op=True)
		if depth == 0:
			work.wait()
			return work.get_future().value()[0]
		return work.get_future().then(lambda future: future.value()[0] + deepen(depth - 1)).wait()

	return [deepen(3).item() for _ in range(20)]


def works(rank, size):
	tensors = [torch.full((100 * k + 1,), float(rank)) for k in range(20)]
	pending = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
	for work in reversed(pending):
		work.wait()
	total = float(sum(range(size)))
	assert all(torch.equal(t, torch.full_like(t, total)) for t in tensors)
	assert all(work.is_completed() for work in pending)
	assert torch.equal(pending[3].result()[0], tensors[3])

	# Nobody waits: a test alone is enough, and so is a callback.
	work = dist.all_reduce(torch.ones(3), async_op=True)
	until = time.monotonic() + 20
	while not work.is_completed() and time.monotonic() < until:
		time.sleep(0)
	assert work.is_completed()
	futures = [dist.all_reduce(torch.ones(1), async_op=True).get_future() for _ in range(5)]
	doubled = [future.then(lambda future: future.value()[0] * 2) for future in futures]
	assert [future.wait().item() for future in doubled] == [2.0 * size] * 5
	chained = futures[0].then(lambda _: dist.all_reduce(torch.ones(1), async_op=True))
	assert chained.wait().wait()

	# A dropped work goes on.
	tensor = torch.ones(1000)
	dist.all_reduce(tensor, async_op=True)
	dist.barrier()
	assert tensor[0] == size
	return True


def objects(rank, size):
	gathered = [None] * size
	dist.all_gather_object(gathered, {"rank": rank, "text": "x" * 1000 * rank})
	assert [entry["rank"] for entry in gathered] == list(range(size))
	one = [("from", rank)]
	dist.broadcast_object_list(one, src=1)
	assert one == [("from", 1)]
	mine = [None]
	dist.scatter_object_list(mine, list(range(size)) if rank == 0 else None, src=0)
	assert mine == [rank]
	everything = [None] * size if rank == 0 else None
	dist.gather_object(rank, everything)
	assert rank or everything == list(range(size))
	return True


def groups(rank, size):
	"""50 further groups: ranks in another order, parts, and one rank."""
	before = len(os.listdir("/proc/self/fd"))
	made = []
	for k in range(50):
		members = [sorted({k % size, (k + 1) % size}), list(range(size)), [k % size]][k % 3]
		group = dist.new_group(members)
		if rank in members:
			made.append((members, group))
	for members, group in made:
		tensor = torch.tensor([float(rank)])
		dist.all_reduce(tensor, group=group)
		assert tensor.item() == sum(members)
	descriptors = len(os.listdir("/proc/self/fd")) - before
	assert descriptors <= 2 * len(made), f"{descriptors} descriptors of {len(made)} groups"
	for _, group in made:
		dist.destroy_process_group(group)
	dist.barrier()
	return True


def many_groups(rank, size):
	"""500 groups live at the usual limit of descriptors."""
	resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
	made = [dist.new_group(range(size)) for _ in range(500)]
	for group in made:
		tensor = torch.ones(1)
		dist.all_reduce(tensor, group=group)
		assert tensor.item() == size
	return True


def monitored_barrier(rank, size):
	dist.monitored_barrier()
	if rank in (1, 2):
		time.sleep(0)
	else:
		try:
			dist.monitored_barrier(timeout=timedelta(seconds=3), wait_all_ranks=True)
		except RuntimeError as error:
			text = str(error)
			assert "Ranks 1, 2 failed to pass monitoredBarrier in 3000 ms" in text, text
		else:
			raise AssertionError("the barrier passed without ranks 1 and 2")
	# Late ranks do not end the group.
	tensor = torch.ones(1)
	dist.all_reduce(tensor)
	return tensor.item()


def wrapped(rank, size):
	"""In torch 2, a backend in another, which checks calls."""
	group = dist.new_group(list(range(size)))
	dist.monitored_barrier(group)
	dist.destroy_process_group(group)
	try:
		group.barrier()
	except rondo_torch.RondoError as error:
		assert "destroyed" in str(error), error
		return True
	return False


def made_again(rank, size):
	"""Every rank destroys the default group, and makes another."""
	for count in range(2, 5):
		dist.destroy_process_group()
		ranks.join(os.path.join(made_again.directory, str(count)), rank, size)
		tensor = torch.ones(1) * count
		dist.all_reduce(tensor)
		assert tensor.item() == count * size
	return True


class Training(unittest.TestCase):
	def test_parameters_are_those_of_gloo(self):
		ours, theirs = ranks.run(2, train), ranks.run(2, train, backend="gloo")
		self.assertEqual(ours[0], ours[1])
		self.assertEqual(ours, theirs)

	@unittest.skipIf(torch.__version__ < "2", "FSDP on processors needs torch 2")
	def test_parameters_of_fsdp_are_those_of_gloo(self):
		ours, theirs = ranks.run(2, train_sharded), ranks.run(2, train_sharded, backend="gloo")
		self.assertEqual(ours[0], ours[1])
		self.assertEqual(ours, theirs)

	def test_ddp_with_unused_parameters(self):
		self.assertEqual(ranks.run(3, with_unused_parameters), [True] * 3)

	def test_ddp_with_a_hook(self):
		self.assertEqual(ranks.run(3, with_a_hook), [[2.0] * 3] * 3)

	def test_parameters_of_powersgd_are_those_of_gloo(self):
		ours, theirs = ranks.run(2, train_compressed), ranks.run(2, train_compressed, backend="gloo")
		self.assertEqual(ours[0], ours[1])
		self.assertEqual(ours, theirs)

	def test_callbacks_that_wait(self):
		self.assertEqual(ranks.run(3, wait_in_callbacks), [[12.0] * 20] * 3)

	def test_works_and_futures(self):
		self.assertEqual(ranks.run(3, works), [True] * 3)

	def test_objects(self):
		self.assertEqual(ranks.run(3, objects), [True] * 3)

	def test_fifty_groups(self):
		self.assertEqual(ranks.run(3, groups), [True] * 3)

	def test_five_hundred_groups(self):
		self.assertEqual(ranks.run(2, many_groups), [True] * 2)

	def test_monitored_barrier_names_all_late_ranks(self):
		self.assertEqual(ranks.run(4, monitored_barrier), [4.0] * 4)

	def test_groups_with_detailed_debugging(self):
		self.addCleanup(dist.set_debug_level, dist.get_debug_level())
		dist.set_debug_level(dist.DebugLevel.DETAIL)
		self.assertEqual(ranks.run(2, wrapped), [True] * 2)

	def test_a_default_group_made_again(self):
		with tempfile.TemporaryDirectory() as made_again.directory:
			self.assertEqual(ranks.run(2, made_again), [True] * 2)


if __name__ == "__main__":
	unittest.main()
