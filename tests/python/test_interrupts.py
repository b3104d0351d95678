"""Ctrl-C during waits. SIGINT comes when the main thread sleeps in the call."""

import array
import fcntl
import os
import signal
import termios
import threading
import time
import unittest

import ranks
import rondo
from rondo import _interrupts
from rondo._library import library
from test_comms import in_a_wait, raises, threads, wait_for


def setUpModule():
	# Background jobs of a shell ignore SIGINT, and so do their children.
	signal.signal(signal.SIGINT, signal.default_int_handler)


def unread():
	"""Bytes of signals that the package has yet to read."""
	return array.array("i", fcntl.ioctl(_interrupts._pair[0], termios.FIONREAD, bytes(4)))[0]


class Sender(threading.Thread):
	"""Sends SIGINT to this process once the main thread waits in a call, and notes the time."""

	def __init__(self, waits):
		super().__init__()
		self.waits = waits

	def run(self):
		# Some times: the main thread may sleep for the GIL on its way.
		for _ in range(5):
			wait_for(lambda: self.waits() and in_a_wait(os.getpid()))
			time.sleep(0.001)
		self.time = time.monotonic()
		os.kill(os.getpid(), signal.SIGINT)


def interrupted(function, waits):
	"""Seconds from SIGINT to KeyboardInterrupt of function(), and its text."""
	sender = Sender(waits)
	sender.start()
	try:
		function()
	except KeyboardInterrupt as error:
		end = time.monotonic()
		sender.join()
		return end - sender.time, str(error)
	raise AssertionError("function() returned")


def in_a_call(comm):
	return comm._thread


def shrinks():
	"""The threads of shrinks."""
	return [thread for thread in threading.enumerate() if thread.name == "rondo shrink"]


def interrupt_a_call(function):
	"""Rank 0 is interrupted in function(comm); rank 1 never joins. Returns (seconds, text, rank 1's error)."""

	def run(comm):
		if comm.rank == 0:
			result = interrupted(lambda: function(comm), lambda: in_a_call(comm))
			assert isinstance(comm.error(), rondo.RevokedError)
			return result
		wait_for(comm.error)
		return str(raises(rondo.RevokedError, comm.barrier))

	(seconds, text), error = ranks.run(2, run)
	return seconds, text, error


class Interrupts(unittest.TestCase):
	def check(self, outcome):
		seconds, text, error = outcome
		self.assertIn("Ctrl-C ended the call and revoked the communicator", text)
		self.assertIn("rank 0", error)
		self.assertIn("KeyboardInterrupt", error)
		self.assertLess(seconds, 20)

	def test_a_call(self):
		self.check(interrupt_a_call(lambda comm: comm.barrier()))

	def test_a_prepared_call(self):
		self.check(interrupt_a_call(lambda comm: comm.all_reduce_init(bytearray(9))()))

	def test_a_long_call(self):
		self.check(interrupt_a_call(lambda comm: comm.all_reduce(bytearray(1 << 20))))

	def test_a_group(self):
		def exchange(comm):
			with rondo.group():
				comm.send(bytearray(1), 1)
				comm.recv(bytearray(1), 1)

		self.check(interrupt_a_call(exchange))

	def test_a_split(self):
		self.check(interrupt_a_call(lambda comm: comm.split(0)))

	def test_a_request(self):
		self.check(interrupt_a_call(lambda comm: comm.all_reduce_init(bytearray(1)).start().wait()))

	def test_the_end_of_a_communicator_with_a_request(self):
		def run(comm):
			if comm.rank == 0:
				comm.all_reduce_init(bytearray(1)).start()
				return interrupted(comm.destroy, lambda: in_a_call(comm))
			wait_for(comm.error)
			return str(raises(rondo.RevokedError, comm.barrier))

		(seconds, text), error = ranks.run(2, run)
		self.check((seconds, text, error))

	def test_a_shrink(self):
		read, write = os.pipe()

		def run(comm):
			if comm.rank == 1:
				os.kill(os.getpid(), signal.SIGKILL)
			raises(rondo.DiedError, comm.barrier)
			if comm.rank == 2:
				os.read(read, 1)
				return
			seconds, text = interrupted(comm.shrink, lambda: any(thread.is_alive() for thread in shrinks()))
			assert "gave up the shrink" in text
			assert "was destroyed" in str(raises(rondo.InvalidError, comm.barrier))
			os.write(write, b"1")
			wait_for(lambda: not shrinks())
			return seconds

		seconds = ranks.run(3, run, dies=1)[0]
		os.close(read)
		os.close(write)
		self.assertLess(seconds, 20) # the others would be waited for for 30 s

	def test_a_creation(self):
		unique_id = rondo.unique_id()

		def run():
			create = lambda: rondo.Comm(0, 2, unique_id=unique_id)
			before = threads()
			result = interrupted(create, lambda: threads() > before + 1) # the sender's and the library's
			wait_for(lambda: threads() == before)
			return result

		seconds, text = ranks.fork(run).result()
		self.assertIn("Ctrl-C cancelled the creation", text)
		self.assertLess(seconds, 20)

	def test_a_creation_that_has_just_begun(self):
		begin = library.rondo_comm_create_begin

		def interrupted_begin(*arguments):
			code = begin(*arguments)
			os.kill(os.getpid(), signal.SIGINT)
			return code

		def run():
			library.rondo_comm_create_begin = interrupted_begin
			before = threads()
			try:
				rondo.Comm(0, 2, unique_id=rondo.unique_id())
			except KeyboardInterrupt as error:
				wait_for(lambda: threads() == before)
				return str(error)

		self.assertIn("Ctrl-C cancelled the creation", ranks.fork(run).result())

	def test_the_creation_of_a_group_leaves_its_parent(self):
		def run(comm):
			if comm.rank == 0:
				before = threads()
				interrupted(lambda: comm.create_group([0, 1]), lambda: threads() > before + 1)
			comm.barrier()

		ranks.run(2, run)

	def test_a_handler_of_the_program_decides(self):
		read, write = os.pipe()

		def run(comm):
			if comm.rank == 1:
				os.read(read, 1)
				comm.send(bytearray(1), 0)
				return
			seen = []
			signal.signal(signal.SIGINT, lambda *_: seen.append(1))
			reader = next(t for t in threading.enumerate() if t.name == "rondo signals")

			def interrupt():
				sender = Sender(lambda: comm._thread)
				sender.run()
				wait_for(lambda: unread() == 0 and in_a_wait(reader.native_id))
				os.write(write, b"1")

			thread = threading.Thread(target=interrupt)
			thread.start()
			comm.recv(bytearray(1), 1)
			thread.join()
			assert seen == [1]

		ranks.run(2, run)
		os.close(read)
		os.close(write)

	def test_a_signal_of_a_forked_child_is_not_its_parents(self):
		read, write = os.pipe()

		def child():
			try:
				os.kill(os.getpid(), signal.SIGINT)
				time.sleep(5)
			except KeyboardInterrupt:
				return "interrupted"

		def run(comm):
			if comm.rank == 1:
				os.read(read, 1)
				comm.barrier()
				return
			reader = next(t for t in threading.enumerate() if t.name == "rondo signals")

			def interrupt_a_child():
				wait_for(lambda: comm._thread and in_a_wait(os.getpid()))
				assert ranks.fork(child).result() == "interrupted"
				wait_for(lambda: unread() == 0 and in_a_wait(reader.native_id))
				os.write(write, b"1")

			thread = threading.Thread(target=interrupt_a_child)
			thread.start()
			comm.barrier()
			thread.join()

		ranks.run(2, run)
		os.close(read)
		os.close(write)


if __name__ == "__main__":
	unittest.main()
