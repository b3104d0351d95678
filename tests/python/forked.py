"""Forked processes that run a function of a test. Those of rondo and of rondo_torch share them."""

import os
import pickle
import signal
import traceback


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
		status = os.waitpid(self.pid, 0)[1]
		self.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
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
