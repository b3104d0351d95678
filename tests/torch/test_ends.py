"""Groups that end while threads use them, or in callbacks of their own calls."""

import os
import signal
import threading
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
		return error.name
	return "no error"


class Caller(threading.Thread):
	"""A thread that makes a call, as soon as it can."""

	def __init__(self, call):
		super().__init__(daemon=True)
		self.call = call
		self.calls = threading.Event()
		self.start()
		self.calls.wait()

	def run(self):
		self.calls.set()
		self.error = error_of(self.call)

	def end(self):
		self.join(20)
		assert not self.is_alive(), "it still waits"
		return self.error


def own_group(size):
	"""A group whose links are open."""
	group = dist.new_group(range(size))
	dist.all_reduce(torch.ones(1), group=group)
	return group


def while_receives_wait(rank, size):
	"""Rank 0 ends the group while threads wait for messages that never come. That fails no call of rank 1."""
	for count in range(10):
		group = own_group(size)
		tensor = torch.full((1000,), float(count if rank == 0 else -1))
		dist.broadcast(tensor, 0, group=group)
		assert tensor[0].item() == count
		if rank == 1:
			continue
		threads = [Caller(dist.irecv(torch.zeros(3), group=group, tag=tag).wait) for tag in range(4)]
		began = time.monotonic()
		dist.destroy_process_group(group)
		assert time.monotonic() - began < 4
		assert {thread.end() for thread in threads} <= {"RONDO_REVOKED", "RONDO_LEFT"}
	return True


def while_calls_wait(rank, size):
	"""Rank 1 makes none of the calls. Their groups end together, within one bound."""
	made = [own_group(size) for _ in range(3)]
	if rank == 1:
		os.read(while_calls_wait.pipe[0], 1)
		assert error_of(lambda: dist.barrier(group=made[0])) == "RONDO_REVOKED"
		return True
	threads = [Caller(dist.all_reduce(torch.ones(3), group=group, async_op=True).wait) for group in made]
	began = time.monotonic()
	dist.destroy_process_group()
	assert time.monotonic() - began < 9
	assert [thread.end() for thread in threads] == ["RONDO_REVOKED"] * 3
	os.write(while_calls_wait.pipe[1], b"x")
	return True


def entry(index):
	return torch.sparse_coo_tensor(torch.tensor([[index]]), torch.tensor([1.0]), (3,))


def start_sum(group):
	"""A thread in a sum of sparse tensors, and the sum's tensor, once the sum has begun."""
	own = rondo_torch._rondo_group(group)
	calls, until = own._get_sequence_number_for_group(), time.monotonic() + 20
	tensor = entry(dist.get_rank())
	thread = Caller(lambda: group.allreduce([tensor]).wait())
	while own._get_sequence_number_for_group() == calls:
		assert time.monotonic() < until, "the sum has not begun"
	return thread, tensor


def while_a_sparse_sum_waits(rank, size):
	"""Rank 1 makes no sum. The group ends in time, and ends the sum, and another thread's call after it."""
	group = own_group(size)
	if rank == 1:
		os.read(while_a_sparse_sum_waits.pipe[0], 1)
		assert error_of(lambda: dist.barrier(group=group)) == "RONDO_REVOKED"
		return True
	thread, _ = start_sum(group)
	other = Caller(lambda: group.allreduce([torch.ones(1)]).wait())
	began = time.monotonic()
	dist.destroy_process_group(group)
	assert time.monotonic() - began < 9
	assert (thread.end(), other.end()) == ("RONDO_REVOKED", "RONDO_INVALID")
	os.write(while_a_sparse_sum_waits.pipe[1], b"x")
	return True


def after_a_sparse_sum(rank, size):
	"""Another thread's call on rank 0, while the sum waits for rank 1, comes after all of the sum's parts."""
	group = own_group(size)
	if rank == 1:
		os.read(after_a_sparse_sum.pipe[0], 1)
	thread, tensor = start_sum(group) if rank == 0 else (None, entry(rank))
	if rank == 1:
		dist.all_reduce(tensor, group=group)
	total = torch.ones(1)
	other = Caller(lambda: dist.all_reduce(total, group=group))
	if rank == 0:
		os.write(after_a_sparse_sum.pipe[1], b"x")
		assert thread.end() == "no error", thread.error
	assert other.end() == "no error", other.error
	return tensor.to_dense().tolist(), total.item()


def sum_in_a_callback(rank, size):
	"""It is refused, for it waits."""
	future = dist.irecv(torch.zeros(1), 1 - rank).get_future()
	error = future.then(lambda _: error_of(lambda: dist.all_reduce(entry(0))))
	ranks.meet(rank, size)
	dist.send(torch.ones(1), 1 - rank)
	return error.wait()


def in_a_child(group, work):
	"""Calls of the parent's group are refused. The child may end it, and leave all."""
	calls = (lambda: group.allreduce([torch.ones(1)]), work.wait, work.is_completed)
	refused = [error_of(call) for call in calls] == ["RONDO_INVALID"] * 3
	dist.destroy_process_group()
	rondo_torch._C.leave_all()
	return refused


def while_a_thread_starts_calls(rank, size):
	"""Children of this process, forked while a thread starts many calls at once, take no lock of that thread's."""
	group, tensors, ends = dist.distributed_c10d._get_default_group(), [torch.ones(1) for _ in range(4000)], []

	def start():
		while not ends:
			dist.all_reduce_coalesced(tensors)

	thread = threading.Thread(target=start)
	thread.start()
	work = group.allreduce([torch.ones(1)])
	statuses = set()
	for _ in range(40):
		child = os.fork()
		if child == 0:
			signal.alarm(10)
			os._exit(0 if in_a_child(group, work) else 1)
		statuses.add(os.waitpid(child, 0)[1])
		if statuses != {0}:
			break
	ends.append(True)
	thread.join()
	return statuses


def in_a_callback(rank, size):
	"""The end in the callback returns, whoever runs the call, and later calls are refused."""
	for waits in (False, True):
		for start in (lambda group: dist.all_reduce(torch.ones(3), group=group, async_op=True), message):
			group = own_group(size)
			work = start(group)
			future = work.get_future().then(lambda _, group=group: dist.destroy_process_group(group))
			if waits:
				work.wait(timedelta(seconds=20))
			future.wait()
			assert error_of(lambda group=group: group.allreduce([torch.ones(1)]).wait()) == "RONDO_INVALID"
	return True


def message(group):
	tensor = torch.zeros(1)
	return dist.isend(tensor, 1, group=group) if dist.get_rank() == 0 else dist.irecv(tensor, 0, group=group)


class Ends(unittest.TestCase):
	def test_a_group_ends_while_threads_wait_for_messages(self):
		self.assertEqual(ranks.run(2, while_receives_wait), [True] * 2)

	def run_with_a_pipe(self, function):
		"""By which rank 0 writes to rank 1."""
		function.pipe = os.pipe()
		for descriptor in function.pipe:
			self.addCleanup(os.close, descriptor)
		return ranks.run(2, function)

	def test_groups_end_together_while_threads_wait_for_calls(self):
		self.assertEqual(self.run_with_a_pipe(while_calls_wait), [True] * 2)

	def test_a_group_ends_while_a_thread_is_in_a_sparse_sum(self):
		self.assertEqual(self.run_with_a_pipe(while_a_sparse_sum_waits), [True] * 2)

	def test_a_call_of_another_thread_comes_after_a_sparse_sum(self):
		self.assertEqual(self.run_with_a_pipe(after_a_sparse_sum), [([1.0, 1.0, 0.0], 2.0)] * 2)

	def test_a_callback_cannot_wait_for_a_sparse_sum(self):
		self.assertEqual(ranks.run(2, sum_in_a_callback), ["RONDO_INVALID"] * 2)

	def test_a_forked_child_takes_no_locks_of_its_parent(self):
		self.assertEqual(ranks.run(1, while_a_thread_starts_calls), [{0}])

	def test_a_group_ends_in_a_callback_of_its_call(self):
		self.assertEqual(ranks.run(2, in_a_callback), [True] * 2)


if __name__ == "__main__":
	unittest.main()
