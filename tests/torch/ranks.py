"""Ranks as forked processes with the backend "rondo", each of which runs a function of the test."""

import os
import pickle
import signal
import tempfile
import traceback
from datetime import timedelta

import rondo_torch
import torch
import torch.distributed as dist

assert rondo_torch


class Rank:
	"""A rank's process, and the pipe on which its result comes."""

	def __init__(self, pid, pipe):
		self.pid = pid
		self.pipe = pipe
		self.status = None

	def result(self):
		"""The value that the function returned; what it raised, as AssertionError. None: it ended earlier."""
		with os.fdopen(self.pipe, "rb") as pipe:
			data = pipe.read()
		self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
		if not data:
			return None
		succeeded, value = pickle.loads(data)
		if not succeeded:
			raise AssertionError(value)
		return value


def _child(pipe, function, arguments):
	signal.alarm(60)
	try:
		outcome = True, function(*arguments)
	except BaseException:
		outcome = False, traceback.format_exc()
	with os.fdopen(pipe, "wb") as pipe:
		pickle.dump(outcome, pipe)


def fork(function, *arguments):
	"""Runs function(*arguments) in a process of its own, which ends by os._exit(), as multiprocessing's do."""
	read, write = os.pipe()
	pid = os.fork()
	if pid == 0:
		try:
			os.close(read)
			_child(write, function, arguments)
		finally:
			os._exit(0)
	os.close(write)
	return Rank(pid, read)


def join(store, rank, size, backend="rondo", seconds=30):
	"""Makes the default group, of ranks that meet at a file."""
	torch.set_num_threads(1)
	dist.init_process_group(
		backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=timedelta(seconds=seconds)
	)


def start(size, function, directory, **settings):
	"""Starts function(rank, size) on each rank."""

	def run(rank):
		join(os.path.join(directory, "store"), rank, size, **settings)
		value = function(rank, size)
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
