"""Ranks as forked processes with the backend "rondo", each of which runs a function of the test."""

import os
import tempfile
from datetime import timedelta

import rondo_torch
import torch
import torch.distributed as dist
from forked import fork

assert rondo_torch


meetings = 0


def meet(rank, size):
	"""Waits until all ranks are here, outside of all groups: one rank's last call may end before another's."""
	global meetings
	store = dist.distributed_c10d._get_default_store()
	meetings += 1
	store.set(f"meeting {meetings} {rank}", "here")
	store.wait([f"meeting {meetings} {other}" for other in range(size)])


def join(store, rank, size, backend="rondo", seconds=30):
	"""Makes the default group, of ranks that meet at a file. All have it then."""
	torch.set_num_threads(1)
	dist.init_process_group(
		backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=timedelta(seconds=seconds)
	)
	meet(rank, size)


def start(size, function, directory, **settings):
	"""Starts function(rank, size) on each rank."""

	def run(rank):
		join(os.path.join(directory, "store"), rank, size, **settings)
		value = function(rank, size)
		if dist.is_initialized():
			dist.destroy_process_group()
		return value

	return [fork(run, rank) for rank in range(size)]


def run(size, function, **settings):
	"""The results of all ranks, in order."""
	results, errors = [], []
	with tempfile.TemporaryDirectory() as directory:
		for rank in start(size, function, directory, **settings):
			try:
				results.append(rank.result())
				if rank.status != 0:
					errors.append(f"a rank ended with status {rank.status}")
			except AssertionError as error:
				errors.append(str(error))
	if errors:
		raise AssertionError("\n".join(errors))
	return results
