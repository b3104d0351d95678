"""Messages: tags in any order, any source, both ranks sending first, beside collectives, and late ones."""

import unittest
from datetime import timedelta

import ranks
import rondo_torch
import torch
import torch.distributed as dist

assert rondo_torch


def full(rank, count=3):
	return torch.full((count,), float(rank))


def around(rank, size):
	"""All send first, also more than fits anywhere on the way."""
	right, left = (rank + 1) % size, (rank - 1) % size
	for count in (0, 1, 1000, 1 << 20):
		got = full(-1, count)
		for work in (dist.isend(full(rank, count), right), dist.irecv(got, left)):
			work.wait()
		assert torch.equal(got, full(left, count))
	got = full(-1)
	batch = [dist.P2POp(dist.isend, full(rank), right), dist.P2POp(dist.irecv, got, left)]
	for work in dist.batch_isend_irecv(batch):
		work.wait()
	assert torch.equal(got, full(left))


def tags(rank, size):
	"""Rank 0 sends tags 1 to 5, and all others receive them backwards."""
	if rank == 0:
		works = [dist.isend(full(10 * to + tag), to, tag=tag) for tag in range(1, 6) for to in range(1, size)]
		for work in works:
			work.wait()
		return
	for tag in range(5, 0, -1):
		got = full(-1)
		dist.recv(got, 0, tag=tag)
		assert torch.equal(got, full(10 * rank + tag))


def any_source(rank, size):
	if rank:
		dist.send(full(rank), 0, tag=7)
		return
	senders = []
	for _ in range(1, size):
		got = full(-1)
		sender = dist.recv(got, tag=7)
		assert torch.equal(got, full(sender))
		senders.append(sender)
	assert sorted(senders) == list(range(1, size))


def layouts(rank, size):
	wide = torch.arange(12).reshape(3, 4)
	if rank == 0:
		dist.send(wide[:, ::2], 1)
		dist.send(wide > 5, 1)
	elif rank == 1:
		got = torch.zeros(3, 4, dtype=torch.int64)
		dist.recv(got[:, ::2], 0)
		assert torch.equal(got[:, ::2], wide[:, ::2]) and got[:, 1::2].eq(0).all()
		mask = torch.zeros(3, 4, dtype=torch.bool)
		dist.recv(mask, 0)
		assert torch.equal(mask, wide > 5)


def beside_collectives(rank, size):
	"""A receive that is under way holds no collective up."""
	got = full(-1)
	work = dist.irecv(got, (rank - 1) % size)
	tensor = torch.ones(1)
	dist.all_reduce(tensor)
	assert tensor.item() == size
	dist.send(full(rank), (rank + 1) % size)
	work.wait()
	assert torch.equal(got, full((rank - 1) % size))


def in_a_group(rank, size):
	members = [0, size - 1]
	group = dist.new_group(members)
	if rank == 0:
		dist.send(full(1), size - 1, group=group)
	elif rank == size - 1:
		got = full(-1)
		assert dist.recv(got, 0, group=group) == 0
		assert torch.equal(got, full(1))


def late(rank, size):
	"""A receive whose wait has failed takes no message, and the group goes on."""
	if rank == 1:
		got = full(-1)
		try:
			dist.irecv(got, 0).wait(timedelta(milliseconds=50))
		except rondo_torch.RondoError as error:
			assert error.name == "RONDO_TIMEOUT" and "timeout" in str(error)
		else:
			raise AssertionError("the wait did not fail")
		dist.barrier()
		dist.recv(got, 0)
		assert torch.equal(got, full(5))
		return
	dist.barrier()
	if rank == 0:
		dist.send(full(5), 1)


def in_callbacks(rank, size):
	"""A message's callback starts another one, in whichever thread it runs."""
	right, left = (rank + 1) % size, (rank - 1) % size
	for count in range(50):
		first, second = full(-1), full(-1)
		answer = dist.irecv(first, left, tag=1)
		answer = answer.get_future().then(lambda _, first=first: dist.isend(first, left, tag=2))
		dist.send(full(rank + count), right, tag=1)
		# The start of the receive may end the first message, whose callback then runs here.
		dist.recv(second, right, tag=2)
		answer.wait().wait()
		assert torch.equal(second, full(rank + count))


class Messages(unittest.TestCase):
	def test_messages(self):
		for function in (around, tags, any_source, layouts, beside_collectives, in_callbacks, in_a_group, late):
			for size in (2, 3):
				with self.subTest(function.__name__, size=size):
					ranks.run(size, function)


if __name__ == "__main__":
	unittest.main()
