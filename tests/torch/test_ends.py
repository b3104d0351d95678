"""Groups that end while threads use them, or in callbacks of their own calls."""

import os
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


class Waiter(threading.Thread):
	"""A thread that waits for a work. It has the interpreter's lock from the event until it waits."""

	def __init__(self, work):
		super().__init__(daemon=True)
		self.work = work
		self.waits = threading.Event()
		self.start()
		self.waits.wait()

	def run(self):
		self.waits.set()
		self.error = error_of(self.work.wait)

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
		threads = [Waiter(dist.irecv(torch.zeros(3), group=group, tag=tag)) for tag in range(4)]
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
	threads = [Waiter(dist.all_reduce(torch.ones(3), group=group, async_op=True)) for group in made]
	began = time.monotonic()
	dist.destroy_process_group()
	assert time.monotonic() - began < 9
	assert [thread.end() for thread in threads] == ["RONDO_REVOKED"] * 3
	os.write(while_calls_wait.pipe[1], b"x")
	return True


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

	def test_groups_end_together_while_threads_wait_for_calls(self):
		while_calls_wait.pipe = os.pipe()
		self.assertEqual(ranks.run(2, while_calls_wait), [True] * 2)
		for descriptor in while_calls_wait.pipe:
			os.close(descriptor)

	def test_a_group_ends_in_a_callback_of_its_call(self):
		self.assertEqual(ranks.run(2, in_a_callback), [True] * 2)


if __name__ == "__main__":
	unittest.main()
