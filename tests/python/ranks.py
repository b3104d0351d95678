"""Ranks as forked processes, each of which runs a function of the test."""

import os
import pickle
import signal
import traceback

import rondo


class Rank:
	"""A rank's process, and the pipe on which its result comes."""

	def __init__(self, pid, pipe):
		self.pid = pid
		self.pipe = pipe

	def result(self):
		"""The value that the function returned; what it raised, as AssertionError. None: it was killed."""
		with os.fdopen(self.pipe, "rb") as pipe:
			data = pipe.read()
		os.waitpid(self.pid, 0)
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
	"""Runs function(*arguments) in a process of its own."""
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


def start(size, function, **settings):
	"""Runs function(comm) on each of `size` ranks, once all have made theirs, and returns them.

	A rank that fails earlier would fail the creation of the others."""
	unique_id = rondo.unique_id()

	def run(rank):
		with rondo.Comm(rank, size, unique_id=unique_id, **settings) as comm:
			comm.barrier()
			return function(comm)

	return [fork(run, rank) for rank in range(size)]


def run(size, function, **settings):
	"""The results of all ranks, in order."""
	ranks = start(size, function, **settings)
	results, errors = [], []
	for rank in ranks:
		try:
			results.append(rank.result())
		except AssertionError as error:
			errors.append(str(error))
	if errors:
		raise AssertionError("\n".join(errors))
	return results
