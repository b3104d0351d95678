"""Errors name the line of the program that made the call."""

import sys
import unittest

import ranks
import rondo
from test_comms import raises, wait_for


def next_line():
	return f"test_call_sites.py:{sys._getframe(1).f_lineno + 1}"


class CallSites(unittest.TestCase):
	def check(self, make):
		"""make(comm) makes a call that times out: it returns its line, and the error."""

		def run(comm):
			sum_line = next_line()
			comm.all_reduce(bytearray(1))
			if comm.rank == 0:
				comm.set_timeout(50)
				line, error = make(comm)
				assert f" at {line}" in str(error) and sum_line != line, error
			else:
				wait_for(comm.error)

		ranks.run(2, run)

	def test_a_call(self):
		def make(comm):
			line = next_line()
			return line, raises(rondo.TimeoutError, lambda: comm.all_reduce(bytearray(1)))

		self.check(make)

	def test_a_prepared_call_has_the_line_that_prepared_it(self):
		def make(comm):
			line = next_line()
			call = comm.all_reduce_init(bytearray(1))
			return line, raises(rondo.TimeoutError, call)

		self.check(make)

	def test_a_request(self):
		def make(comm):
			line = next_line()
			call = comm.all_reduce_init(bytearray(1))
			return line, raises(rondo.TimeoutError, call.start().wait)

		self.check(make)

	def test_a_split(self):
		def make(comm):
			line = next_line()
			return line, raises(rondo.TimeoutError, lambda: comm.split(0))

		self.check(make)

	def test_bytes(self):
		def make(comm):
			line = next_line()
			return line, raises(rondo.TimeoutError, lambda: comm.all_gather_bytes(b"1"))

		self.check(make)


if __name__ == "__main__":
	unittest.main()
