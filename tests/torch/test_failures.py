"""Ranks that die, differ, are late, or end with work pending: each of the others names them."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from datetime import timedelta

import ranks
import rondo_torch
import torch
import torch.distributed as dist


def error_of(call):
	try:
		call()
	except rondo_torch.RondoError as error:
		return error.name, str(error)
	return "no error", ""


def killed(rank, size):
	dist.barrier()
	ranks.meet(rank, size)
	if rank == 1:
		os.kill(os.getpid(), signal.SIGKILL)
	began = time.monotonic()
	error = error_of(lambda: dist.all_reduce(torch.ones(4)))
	return *error, time.monotonic() - began


def killed_with_workers(rank, size):
	"""Workers of a DataLoader have copies of the rank's descriptors."""
	data = torch.utils.data.DataLoader(torch.arange(64.0), batch_size=4, num_workers=2)
	batches = iter(data)
	tensor = next(batches)
	dist.all_reduce(tensor)
	assert tensor[1].item() == size
	return killed(rank, size)


def killed_in_a_future(rank, size):
	dist.barrier()
	ranks.meet(rank, size)
	future = dist.all_reduce(torch.ones(4), async_op=True).get_future() if rank != 1 else None
	if rank == 1:
		os.kill(os.getpid(), signal.SIGKILL)
	return error_of(future.wait)


def different(rank, size):
	return error_of(lambda: dist.all_reduce(torch.ones(10 + rank)))


def late(rank, size):
	group = dist.new_group(range(size), timeout=timedelta(seconds=3))
	if rank == 1:
		os.read(late.wait_for, 1)
	# Rank 1 may get its first sum of what the others have sent, and then the failure in its second call.
	return error_of(lambda: [dist.all_reduce(torch.ones(4), group=group) for _ in range(2)])


def late_for_a_bucket(rank, size):
	group = dist.new_group(range(size), timeout=timedelta(seconds=3))
	model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1), process_group=group)
	loss = model(torch.ones(1, 3)).sum()
	if rank == 1:
		os.read(late_for_a_bucket.wait_for, 1)
		return None
	try:
		loss.backward()
	except RuntimeError as error:
		return str(error)


def limit_memory(beyond):
	"""Returns the limit before."""
	before = resource.getrlimit(resource.RLIMIT_AS)
	with open("/proc/self/statm", encoding="ascii") as statm:
		mapped = int(statm.read().split()[0]) * resource.getpagesize()
	resource.setrlimit(resource.RLIMIT_AS, (mapped + beyond, before[1]))
	return before


def without_memory(has_entries):
	"""Rank 1 has no memory for the 128 MiB of the sparse sum's entries, which one of the ranks has."""

	def sum_sparse(rank, size):
		rows = torch.arange(32 if has_entries == rank else 0)
		tensor = torch.sparse_coo_tensor(rows[None], torch.ones(len(rows), 1 << 20), (32, 1 << 20))
		dist.barrier()
		if rank == 1:
			before = limit_memory(beyond=32 << 20)
		try:
			dist.all_reduce(tensor)
		except RuntimeError as error:
			return getattr(error, "name", "torch's"), str(error)
		finally:
			if rank == 1:
				resource.setrlimit(resource.RLIMIT_AS, before)

	return sum_sparse


def short_wait(rank, size):
	"""A wait that is too short harms nothing."""
	if rank == 0:
		work = dist.all_reduce(torch.ones(4), async_op=True)
		error = error_of(lambda: work.wait(timedelta(milliseconds=50)))
		os.write(short_wait.go, b"x")
		work.wait()
		return error
	os.read(short_wait.wait_for, 1)
	dist.all_reduce(torch.ones(4))
	return None


def destroyed(rank, size):
	"""At once, though a model has the group, and the test another one."""
	default, other = dist.distributed_c10d._get_default_group(), dist.new_group(range(size))
	model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
	dist.destroy_process_group()
	assert model.process_group is default
	errors = [error_of(lambda group=group: group.allreduce([torch.ones(4)]).wait()) for group in (default, other)]
	assert errors[0] == errors[1]
	return errors[0]


class Failures(unittest.TestCase):
	def start(self, size, function, **settings):
		directory = tempfile.TemporaryDirectory()
		self.addCleanup(directory.cleanup)
		return ranks.start(size, function, directory.name, **settings)

	def test_a_killed_rank_is_named(self):
		for function in (killed, killed_with_workers):
			with self.subTest(function.__name__):
				results = [rank.result() for rank in self.start(3, function)]
				self.assertIsNone(results[1])
				for name, text, seconds in (results[0], results[2]):
					self.assertEqual(name, "RONDO_DIED")
					self.assertIn("rank 1", text)
					self.assertLess(seconds, 20) # silence would take 30 s

	def test_a_future_names_the_killed_rank(self):
		name, text = [rank.result() for rank in self.start(2, killed_in_a_future)][0]
		self.assertEqual(name, "RONDO_DIED")
		self.assertIn("rank 1", text)

	def test_a_rank_that_makes_another_call_is_named(self):
		for name, text in [rank.result() for rank in self.start(2, different)]:
			self.assertEqual(name, "RONDO_MISMATCH")
			self.assertIn("rank 1", text)

	def test_a_timeout_names_the_late_rank(self):
		late.wait_for, go = os.pipe()
		started = self.start(3, late)
		for rank in (0, 2):
			name, text = started[rank].result()
			self.assertEqual(name, "RONDO_TIMEOUT")
			self.assertIn("timeout", text)
			self.assertIn("rank 1", text)
			self.assertIn(f"at test_failures.py:{late.__code__.co_firstlineno + 5}", text)
		os.write(go, b"x")
		self.assertEqual(started[1].result()[0], "RONDO_TIMEOUT")
		os.close(late.wait_for)
		os.close(go)

	def test_an_error_of_ddp_names_the_line_of_backward(self):
		late_for_a_bucket.wait_for, go = os.pipe()
		started = self.start(2, late_for_a_bucket)
		line = late_for_a_bucket.__code__.co_firstlineno + 8
		self.assertIn(f"at test_failures.py:{line}", started[0].result())
		os.write(go, b"x")
		self.assertIsNone(started[1].result())
		os.close(late_for_a_bucket.wait_for)
		os.close(go)

	def test_a_sparse_sum_without_memory_ends_on_all_ranks(self):
		# Rank 1 fails before the first part, where the entries are its own, and else before the second.
		for has_entries in (1, 0):
			with self.subTest(has_entries=has_entries):
				started = self.start(2, without_memory(has_entries))
				(name, text), (own_name, own_text) = [rank.result() for rank in started]
				self.assertEqual((name, own_name), ("RONDO_REVOKED", "torch's"))
				self.assertIn("rank 1", text)
				for reason in (text, own_text):
					self.assertIn("134217728 bytes", reason)

	def test_a_short_wait(self):
		short_wait.wait_for, short_wait.go = os.pipe()
		error, _ = [rank.result() for rank in self.start(2, short_wait)]
		self.assertEqual(error[0], "RONDO_TIMEOUT")
		self.assertIn("timeout", error[1])
		os.close(short_wait.wait_for)
		os.close(short_wait.go)

	def test_calls_of_a_group_that_was_left(self):
		for name, text in [rank.result() for rank in self.start(2, destroyed)]:
			self.assertEqual(name, "RONDO_INVALID")
			self.assertIn("destroyed", text)


def end_by(way, rank, store):
	"""Ends with work pending, which the other rank does not do."""
	ranks.join(store, rank, 2)
	data = torch.full((1000,), 7.0)
	dist.broadcast(data, src=0)
	if rank == 1:
		error = error_of(lambda: dist.all_gather([torch.ones(3)] * 2, torch.ones(3)))
		os._exit(0 if error[0] != "no error" else 9)
	work = dist.all_reduce(torch.ones(10), async_op=True)
	if way == "exception":
		raise RuntimeError("as planned")
	if way == "_exit":
		os._exit(5)
	if way == "signal":
		os.kill(os.getpid(), signal.SIGTERM)
	assert work


WAYS = {"return": 0, "exception": 1, "_exit": 5, "signal": -signal.SIGTERM}


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


class Ends(unittest.TestCase):
	def test_a_process_ends_with_work_pending(self):
		with tempfile.TemporaryDirectory() as directory:
			done = subprocess.run(
				[sys.executable, __file__, "end", directory],
				stdout=subprocess.PIPE,
				stderr=subprocess.PIPE,
				text=True,
				timeout=60,
			)
		self.assertEqual(done.stdout, f"{[s for status in WAYS.values() for s in (status, 0)]}\n", done.stderr)


if __name__ == "__main__":
	if sys.argv[1:2] == ["end"]:
		end_in_all_ways(sys.argv[2])
	else:
		unittest.main()
