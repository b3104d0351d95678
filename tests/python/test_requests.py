"""Streams, requests and asyncio."""

import array
import asyncio
import gc
import os
import threading
import unittest

import ranks
import rondo
from rondo._library import library
from test_comms import raises, threads, wait_for


class Requests(unittest.TestCase):
	def test_a_request_ends_when_its_call_has(self):
		def run(comm):
			go = threading.Event()
			stream = rondo.Stream()
			stream.call(go.wait)
			result = array.array("i", [comm.rank])
			request = comm.all_reduce_init(result).start(stream)
			assert not request.test() and not stream.query()
			assert not request.wait(timeout=0.001)
			go.set()
			assert request.wait() and request.test() and list(result) == [1]
			stream.synchronize()
			assert stream.query()
			stream.destroy()

		ranks.run(2, run)

	def test_a_synchronized_stream_has_no_work(self):
		with rondo.Stream() as stream:
			for _ in range(200):
				stream.call(lambda: None)
				stream.synchronize()
				self.assertTrue(stream.query())

	def test_requests_of_one_communicator_run_in_order(self):
		def run(comm):
			buffer = array.array("q", [1])
			call = comm.all_reduce_init(buffer)
			requests = [call.start() for _ in range(20)]
			requests[-1].wait()
			assert all(request.test() for request in requests)
			assert list(buffer) == [2**20]

		ranks.run(2, run)

	def test_arrays_live_until_the_call_has_run(self):
		def run(comm):
			go = threading.Event()
			out = bytearray(1 << 20)
			with rondo.Stream() as stream:
				stream.call(go.wait)
				comm.all_reduce_init(bytearray(b"\1" * (1 << 20)), out).start(stream)
				gc.collect()
				other = [bytearray(b"\7" * (1 << 20)) for _ in range(4)]
				go.set()
			assert bytes(out) == b"\2" * (1 << 20) and other

		ranks.run(2, run)

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

	def test_a_group_on_a_stream(self):
		def run(comm):
			other = 1 - comm.rank
			mine, theirs = bytearray([comm.rank]), bytearray(1)
			with rondo.Stream() as stream:
				with rondo.group(stream) as group:
					comm.send(mine, other)
					comm.recv(theirs, other)
					error = raises(rondo.InvalidError, comm.barrier_init().start)
					assert "rondo.group(stream)" in str(error)
				group.request.wait()
			assert list(theirs) == [other]

		ranks.run(2, run)

	def test_a_refused_call_refuses_its_group(self):
		def run(comm):
			def exchange():
				with rondo.group():
					comm.send(bytearray(1), 0)
					comm.recv(bytearray(1), 5)

			assert "rank 5 is out of range" in str(raises(rondo.InvalidError, exchange))

		ranks.run(1, run)

	def test_a_dropped_stream_ends_and_not_on_its_own_thread(self):
		def run(comm):
			on_stream, destroyed = [], []
			destroy = library.rondo_stream_destroy

			def destroy_here(handle):
				destroyed.append(threading.get_ident())
				destroy(handle)

			library.rondo_stream_destroy = destroy_here
			before, go = threads(), threading.Event()
			stream = rondo.Stream()
			stream.call(lambda: on_stream.append(threading.get_ident()) or go.wait())
			comm.barrier_init().start(stream)
			del stream
			go.set()
			comm.barrier()
			wait_for(lambda: destroyed and threads() <= before)
			assert destroyed != on_stream

		ranks.run(2, run)


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
