"""Ranks as forked processes, each of which runs a function of the test."""

import rondo
from forked import fork


def start(size, function, **settings):
	"""Runs function(comm) on each of `size` ranks, once all have made theirs, and returns them.

	A rank that fails earlier would fail the creation of the others."""
	unique_id = rondo.unique_id()

	def run(rank):
		with rondo.Comm(rank, size, unique_id=unique_id, **settings) as comm:
			comm.barrier()
			return function(comm)

	return [fork(run, rank) for rank in range(size)]


def run(size, function, dies=None, **settings):
	"""The results of all ranks, in order. Each ends well, but for rank `dies`."""
	results, errors = [], []
	for number, rank in enumerate(start(size, function, **settings)):
		try:
			results.append(rank.result())
			if rank.status != 0 and number != dies:
				errors.append(f"rank {number} ended with status {rank.status}")
		except AssertionError as error:
			errors.append(str(error))
	if errors:
		raise AssertionError("\n".join(errors))
	return results
