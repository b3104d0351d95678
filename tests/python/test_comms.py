"""Communicators from others, and their failures."""

import array
import contextlib
import gc
import os
import signal
import threading
import time
import unittest
import warnings

import ranks
import rondo
from rondo import requests


def sum_of_ranks(comm):
	return comm.all_reduce(array.array("i", [comm.rank]))[0]


def raises(kind, function, *arguments):
	"""The exception that function(*arguments) raises, which is of this class."""
	try:
		function(*arguments)
	except rondo.RondoError as error:
		assert type(error) is kind, repr(error)
		return error
	raise AssertionError(f"{kind.__name__} was not raised")


def wait_for(condition):
	"""Returns once the condition is true: within 20 s, or fails."""
	end = time.monotonic() + 20
	while not condition():
		assert time.monotonic() < end, "waited for 20 s"
		time.sleep(0.001)


def threads():
	"""The threads of this process, the library's too."""
	return len(os.listdir("/proc/self/task"))


class Parts(unittest.TestCase):
	def test_split_and_duplicate(self):
		def run(comm):
			part = comm.split(comm.rank % 2, key=-comm.rank)
			with part:
				assert (part.size, part.rank) == (2, 1 - comm.rank // 2)
				assert sum_of_ranks(part) == 1
			alone = comm.split(0 if comm.rank == 0 else -1)
			assert (alone is None) == (comm.rank != 0)
			if alone:
				alone.destroy()
			with comm.duplicate() as copy:
				assert copy.rank == comm.rank and sum_of_ranks(copy) == 6

		ranks.run(4, run)

	def test_create_group(self):
		def run(comm):
			if comm.rank != 1:
				with comm.create_group([2, 0], tag=7) as part:
					assert (part.rank, sum_of_ranks(part)) == (1 if comm.rank == 0 else 0, 1)

		ranks.run(3, run)

	def test_grow(self):
		id_of_all, id_of_two = rondo.unique_id(), rondo.unique_id()

		def member(rank):
			with rondo.Comm(rank, 2, unique_id=id_of_two) as comm:
				with comm.grow(3, id_of_all if rank == 0 else None) as grown:
					return sum_of_ranks(grown)

		def newcomer():
			with rondo.Comm(2, 3, unique_id=id_of_all) as comm:
				return sum_of_ranks(comm)

		started = [ranks.fork(member, 0), ranks.fork(member, 1), ranks.fork(newcomer)]
		self.assertEqual([rank.result() for rank in started], [3, 3, 3])

	def test_shrink_after_a_death(self):
		def run(comm):
			if comm.rank == 1:
				os.kill(os.getpid(), signal.SIGKILL)
			error = raises(rondo.DiedError, comm.barrier)
			assert error.ranks == (1,) and error.code == -8 and error.name == "RONDO_DIED"
			assert "rank 1" in str(error)
			assert comm.failed() == (1,) and type(comm.error()) is rondo.DiedError
			with comm.shrink() as left:
				assert left.size == 3 and sum_of_ranks(left) == 3

		ranks.run(4, run, dies=1)


class Failures(unittest.TestCase):
	def test_different_calls_are_a_mismatch(self):
		def run(comm):
			error = raises(rondo.MismatchError, comm.all_reduce, bytearray(1 + comm.rank))
			assert "rank 0" in str(error) and "rank 1" in str(error)

		ranks.run(2, run)

	def test_late_ranks_are_a_timeout(self):
		read, write = os.pipe()

		def run(comm):
			assert comm.late() == ()
			if comm.rank == 2:
				for _ in range(3): # the others have looked
					os.read(read, 1)
				comm.set_timeout(50)
			else:
				os.write(write, b"1")
				wait_for(comm.error)
			error = raises(rondo.TimeoutError, comm.barrier)
			assert isinstance(error, TimeoutError)
			assert error.ranks == (0, 1, 3) and comm.late() == error.ranks
			assert comm.failed() == () and comm.error().ranks == error.ranks

		ranks.run(4, run)
		os.close(read)
		os.close(write)

	def test_a_rank_that_left(self):
		def run(comm):
			if comm.rank == 1:
				raises(rondo.LeftError, comm.barrier)

		ranks.run(2, run)

	def test_an_exception_in_the_block_revokes(self):
		unique_id = rondo.unique_id()

		def leave():
			try:
				with rondo.Comm(0, 2, unique_id=unique_id) as comm:
					comm.barrier()
					raise KeyError("a bug")
			except KeyError:
				return "KeyError"

		def stay():
			with rondo.Comm(1, 2, unique_id=unique_id) as comm:
				comm.barrier()
				return str(raises(rondo.RevokedError, comm.barrier))

		started = [ranks.fork(leave), ranks.fork(stay)]
		left, stayed = (rank.result() for rank in started)
		self.assertEqual(left, "KeyError")
		self.assertIn("rank 0", stayed)
		self.assertIn("KeyError", stayed)

	def test_every_class_has_its_code_and_name(self):
		for name in rondo.__all__:
			kind = getattr(rondo, name)
			if name.endswith("Error") and name != "RondoError":
				self.assertTrue(issubclass(kind, rondo.RondoError))
				self.assertLess(kind.code, 0)
				self.assertRegex(kind.name, "^RONDO_[A-Z]+$")
		self.assertEqual(rondo.RevokedError.name, "RONDO_REVOKED")

	def test_a_destroyed_communicator_refuses_calls(self):
		def run(comm):
			call = comm.all_reduce_init(bytearray(1))
			call()
			comm.destroy()
			comm.destroy()
			for function in (call, comm.barrier, comm.duplicate, call.start):
				assert "was destroyed" in str(raises(rondo.InvalidError, function))
			assert "destroyed" in repr(comm)

		ranks.run(1, run)

	def test_two_threads_may_not_use_one(self):
		def run(comm):
			if comm.rank == 0:
				waiter = threading.Thread(target=comm.barrier)
				waiter.start()
				wait_for(lambda: comm._thread == waiter.ident and in_a_wait(waiter.native_id))
				raises(rondo.InvalidError, comm.all_reduce, bytearray(1))
				comm.revoke("enough") # any thread may
				wait_for(lambda: not waiter.is_alive())
			else:
				wait_for(comm.error)

		excepthook = threading.excepthook
		threading.excepthook = lambda _: None # of the waiter, whose call is revoked
		try:
			ranks.run(2, run)
		finally:
			threading.excepthook = excepthook

	def test_an_exception_in_an_operation(self):
		def run(comm):
			def combine(into, a, b):
				raise KeyError("a bug")

			call = comm.all_reduce_init(bytearray(2), op=comm.create_op(combine))

			def repeat():
				while True: # a rank that combined nothing may have its result
					run_call(call)

			error = raises(rondo.RevokedError, repeat)
			assert "KeyError in an operation" in str(error)
			return isinstance(error.__cause__, KeyError)

		def in_a_group(call):
			with rondo.group():
				call()

		for run_call in (lambda call: call(), lambda call: call.start().wait(), in_a_group):
			self.assertTrue(any(ranks.run(2, run)))

	def test_an_exception_in_an_operation_is_known_after_the_end(self):
		def run(comm):
			def combine(into, a, b):
				raise KeyError("a bug")

			request = comm.all_reduce_init(bytearray(2), op=comm.create_op(combine)).start()
			wait_for(comm.error)
			wait_for(lambda: not requests.under_way(comm))
			with contextlib.suppress(rondo.RevokedError):
				comm.destroy()
			if comm._op_error is None: # this rank combined nothing
				return False
			error = raises(rondo.RevokedError, request.wait)
			assert "KeyError in an operation" in str(error)
			return isinstance(error.__cause__, KeyError)

		self.assertTrue(any(ranks.run(2, run)))

	def test_an_unknown_setting(self):
		def run():
			os.environ["RONDO_CHANELS"] = "2"
			return str(raises(rondo.SettingError, rondo.Comm, 0, 1))

		self.assertIn("nearest is RONDO_CHANNELS", ranks.fork(run).result())

	def test_a_communicator_that_is_dropped_is_destroyed(self):
		unique_id = rondo.unique_id()

		def drop():
			with warnings.catch_warnings(record=True) as caught:
				warnings.simplefilter("always")
				comm = rondo.Comm(0, 2, unique_id=unique_id)
				comm.barrier()
				del comm
				gc.collect()
			os.read(read, 1)
			return [str(warning.message) for warning in caught]

		def stay():
			with rondo.Comm(1, 2, unique_id=unique_id) as comm:
				comm.barrier()
				raises(rondo.LeftError, comm.barrier)
			os.write(write, b"1")

		read, write = os.pipe()
		dropped, stayed = ranks.fork(drop), ranks.fork(stay)
		stayed.result()
		self.assertEqual(dropped.result(), ["<rondo.Comm: rank 0 of 2> was never destroyed"])
		os.close(read)
		os.close(write)


def in_a_wait(thread):
	"""Whether a thread, by its number in the kernel, sleeps there."""
	with open(f"/proc/self/task/{thread}/stat") as stat:
		return stat.read().rpartition(")")[2].split()[0] == "S"


class Processes(unittest.TestCase):
	def test_a_forked_child_is_refused_and_the_parent_goes_on(self):
		def run(comm):
			child = ranks.fork(lambda: str(raises(rondo.InvalidError, comm.barrier)))
			assert "fork" in child.result()
			return sum_of_ranks(comm)

		self.assertEqual(ranks.run(2, run), [1, 1])

	def test_other_threads_run_while_one_waits(self):
		def run(comm):
			if comm.rank == 0:
				counter = [0]

				def count():
					while comm._thread == 0:
						pass
					while comm._thread and counter[0] < 100000:
						counter[0] += 1
					comm_waits = comm._thread != 0
					os.write(write, b"1" if comm_waits else b"0")

				thread = threading.Thread(target=count)
				thread.start()
				comm.recv(bytearray(1), 1)
				thread.join()
				return counter[0]
			assert os.read(read, 1) == b"1", "the other thread did not run beside the call"
			comm.send(bytearray(1), 0)

		read, write = os.pipe()
		self.assertEqual(ranks.run(2, run)[0], 100000)
		os.close(read)
		os.close(write)

	def test_the_launcher_gives_rank_and_size(self):
		def run():
			os.environ.update(RANK="1", WORLD_SIZE="4", LOCAL_RANK="1")
			return tuple(rondo.launch())[:4]

		self.assertEqual(ranks.fork(run).result(), ("torchrun", 1, 4, 1))


if __name__ == "__main__":
	unittest.main()
