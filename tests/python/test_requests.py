"""Requests and asyncio."""

import array
import asyncio
import contextlib
import gc
import os
import threading
import unittest
import weakref

import ranks
import rondo
from test_comms import raises, wait_for


class Array(array.array):
	"""One that weak references may have."""


class Requests(unittest.TestCase):
	def setUp(self):
		self.read, self.write = os.pipe()

	def tearDown(self):
		os.close(self.read)
		os.close(self.write)

	def run_late(self, first, then):
		"""Rank 0 runs first(comm, go), and rank 1 runs then(comm) once go() has been called."""

		def run(comm):
			if comm.rank == 1:
				os.read(self.read, 1)
				then(comm)
			else:
				try:
					first(comm, lambda: os.write(self.write, b"1"))
				finally: # rank 1 waits
					os.write(self.write, b"1")

		ranks.run(2, run)

	def test_a_request_ends_when_its_call_has(self):
		def first(comm, go):
			result = array.array("i", [1])
			request = comm.all_reduce_init(result).start()
			assert not request.test()
			assert not request.wait(timeout=0.001)
			go()
			assert request.wait() and request.test() and list(result) == [3]

		self.run_late(first, lambda comm: comm.all_reduce(array.array("i", [2])))

	def test_a_call_is_started_again_once_it_is_done(self):
		def first(comm, go):
			buffer = array.array("q", [1])
			call = comm.all_reduce_init(buffer)
			request = call.start()
			assert "under way" in str(raises(rondo.InvalidError, call.start))
			go()
			request.wait()
			assert call() is buffer and list(buffer) == [4]
			for step in range(200):
				buffer[0] = step
				again = call.start()
				again.wait()
				assert again.test() and request.test() and list(buffer) == [step + 1]

		def then(comm):
			buffer = array.array("q", [1])
			comm.all_reduce(buffer)
			comm.all_reduce(buffer)
			for _ in range(200):
				comm.all_reduce(array.array("q", [1]))

		self.run_late(first, then)

	def test_requests_of_one_communicator_run_in_order(self):
		def run(comm):
			buffer = array.array("q", [1])
			calls = [comm.all_reduce_init(buffer) for _ in range(20)]
			requests = [call.start() for call in calls]
			requests[-1].wait()
			assert all(request.test() for request in requests)
			assert list(buffer) == [2**20]

		ranks.run(2, run)

	def test_arrays_live_until_the_call_has_run_and_no_longer(self):
		def first(comm, go):
			send, out = Array("q", [1] * (1 << 17)), Array("q", [0] * (1 << 17))
			freed = []
			weakref.finalize(send, lambda: freed.append(threading.current_thread().name))
			comm.all_reduce_init(send, out).start()
			del send
			gc.collect()
			assert not freed
			go()
			comm.barrier_init().start().wait() # this thread runs both
			wait_for(lambda: freed)
			assert set(out) == {3}
			# Not in the end of the call: a handler of a signal might run there.
			assert freed == ["rondo requests"]

		def then(comm):
			comm.all_reduce(array.array("q", [2] * (1 << 17)))
			comm.barrier()

		self.run_late(first, then)

	def test_a_call_whose_request_was_dropped_is_started_again(self):
		def first(comm, go):
			buffer = array.array("q", [1])
			call = comm.all_reduce_init(buffer)
			call.start()
			gc.collect()
			assert "under way" in str(raises(rondo.InvalidError, call.start))
			go()
			for step in range(2, 100):
				wait_for(lambda: buffer[0] == 2 * step - 1)
				again = None
				while again is None: # its last start is about to end
					with contextlib.suppress(rondo.InvalidError):
						again = call.start()
			again.wait()

		def then(comm):
			for _ in range(99):
				comm.all_reduce(array.array("q", [2]))

		self.run_late(first, then)

	def test_an_end_that_a_thread_waits_for_wakes_no_other(self):
		def run(comm):
			call = comm.all_reduce_init(array.array("q", [1]))
			call.start().wait()
			reader = next(it for it in threading.enumerate() if it.name == "rondo requests")
			before = switches(reader)
			for _ in range(1000):
				call.start().wait()
			assert switches(reader) - before < 10 # it may still have begun

		def switches(thread):
			with open(f"/proc/self/task/{thread.native_id}/status") as file:
				return next(int(line.split()[1]) for line in file if line.startswith("voluntary"))

		ranks.run(2, run)

	def test_tagged_messages_come_in_any_order(self):
		def run(comm):
			if comm.rank > 0:
				sent = [comm.send_tagged(bytes([comm.rank, tag]), 0, tag) for tag in (5, 6)]
				assert [message.wait() for message in sent] == [True, True]
				raises(rondo.InvalidError, sent[0].cancel)
				comm.barrier() # a receive from any source fails once all others have left
				return
			two, one, late = bytearray(4), bytearray(4), bytearray(1)
			comm.recv_tagged(two, 2, 6).wait()
			assert two == bytes([2, 6, 0, 0])
			message = comm.recv_tagged(one, tag=6)
			assert message.wait() and message.origin() == (1, 2)
			senders = set()
			for _ in range(2):
				message = comm.recv_tagged(one, tag=5)
				message.wait()
				senders.add(message.origin()[0])
			assert senders == {1, 2}
			message = comm.recv_tagged(late, tag=99)
			assert not message.test() and not message.wait(0)
			raises(rondo.InvalidError, message.origin)
			message.cancel()
			assert "cancel" in str(raises(rondo.RevokedError, message.wait))
			assert comm.error() is None
			comm.barrier()

		ranks.run(3, run)

	def test_a_message_is_awaited(self):
		def run(comm):
			async def exchange():
				theirs = bytearray(1 << 20)
				sent = comm.send_tagged(bytes([comm.rank]) * (1 << 20), 1 - comm.rank)
				await comm.recv_tagged(theirs, 1 - comm.rank)
				await sent
				assert theirs == bytes([1 - comm.rank]) * (1 << 20)

			asyncio.run(exchange())

		ranks.run(2, run)

	def test_a_call_after_the_end_is_refused(self):
		def run(comm):
			call = comm.barrier_init()
			call.start().wait()
			comm.destroy()
			assert "was destroyed" in str(raises(rondo.InvalidError, call.start))
			assert "was destroyed" in str(raises(rondo.InvalidError, call))

		ranks.run(1, run)

	def test_a_failure_is_raised_by_all_ways_of_waiting(self):
		def run(comm):
			if comm.rank == 1:
				comm.revoke("on purpose")
				return
			request = comm.all_reduce_init(bytearray(1)).start()
			assert "on purpose" in str(raises(rondo.RevokedError, request.wait))
			raises(rondo.RevokedError, request.test)

			async def wait():
				await request

			raises(rondo.RevokedError, asyncio.run, wait())

		ranks.run(2, run)

	def test_a_prepared_group(self):
		def run(comm):
			other = 1 - comm.rank
			mine, theirs = bytearray([comm.rank]), bytearray(1)
			with rondo.group_init() as exchange:
				comm.send(mine, other)
				comm.recv(theirs, other)
				error = raises(rondo.InvalidError, comm.barrier_init().start)
				assert "rondo.group_init()" in str(error)
			for step in range(10):
				mine[0] = 10 * step + comm.rank
				exchange.start().wait() if step % 2 else exchange()
				assert list(theirs) == [10 * step + other]

		ranks.run(2, run)

	def test_a_group_that_cannot_be_prepared(self):
		def run(comm):
			def empty():
				with rondo.group_init():
					pass

			def inner():
				with rondo.group():
					with rondo.group_init():
						pass

			def interrupted():
				with rondo.group_init():
					comm.recv(bytearray(1), 0)
					raise rondo.LeftError("on purpose")

			assert "no call" in str(raises(rondo.InvalidError, empty))
			assert "within a group" in str(raises(rondo.InvalidError, inner))
			raises(rondo.LeftError, interrupted)
			comm.barrier() # nothing was received

		ranks.run(1, run)

	def test_a_refused_call_refuses_its_group(self):
		def run(comm):
			def exchange():
				with rondo.group():
					comm.send(bytearray(1), 0)
					comm.recv(bytearray(1), 5)

			assert "rank 5 is out of range" in str(raises(rondo.InvalidError, exchange))

		ranks.run(1, run)


class Asyncio(unittest.TestCase):
	def test_a_hundred_calls_in_flight(self):
		def run(comm):
			buffers = [array.array("i", [i + comm.rank]) for i in range(100)]

			async def call(buffer):
				await comm.all_reduce_init(buffer).start()
				return buffer[0]

			async def main():
				return await asyncio.gather(*(call(buffer) for buffer in buffers))

			assert asyncio.run(main()) == [2 * i + 1 for i in range(100)]

		ranks.run(2, run)

	def test_the_loop_runs_while_a_call_waits(self):
		read, write = os.pipe()

		def run(comm):
			if comm.rank == 1:
				os.read(read, 1)
				comm.barrier()
				return

			async def main():
				request = comm.barrier_init().start()
				for _ in range(100):
					await asyncio.sleep(0)
				assert not request.test()
				os.write(write, b"1")
				await request

			asyncio.run(main())

		ranks.run(2, run)
		os.close(read)
		os.close(write)

	def test_a_cancelled_coroutine_revokes(self):
		def run(comm):
			if comm.rank == 1:
				wait_for(comm.error)
				assert "was cancelled" in str(raises(rondo.RevokedError, comm.barrier))
				return

			async def main():
				async def barrier():
					await comm.barrier_init().start()

				try:
					await asyncio.wait_for(barrier(), 0.05)
				except asyncio.TimeoutError:
					return "cancelled"

			assert asyncio.run(main()) == "cancelled"

		ranks.run(2, run)


if __name__ == "__main__":
	unittest.main()
