"""The twins for readers of mpi4py, and python -m rondo.run."""

import array
import os
import subprocess
import sys
import tempfile
import unittest

import ranks
import rondo
from rondo import mpi
from test_comms import raises

SCRIPT = """
import array
from rondo import mpi

comm = mpi.COMM_WORLD
value = array.array("i", [comm.Get_rank() + 1])
comm.Allreduce(mpi.IN_PLACE, value, op=mpi.PROD)
print(f"{comm.Get_rank()} of {comm.Get_size()}: {value[0]}")
assert mpi.COMM_WORLD is comm
"""


def on_mpi(size, function):
	"""Runs function(comm) on ranks with an mpi.Comm."""
	unique_id = rondo.unique_id()

	def run(rank):
		with mpi.Comm(rank, size, unique_id=unique_id) as comm:
			function(comm)

	started = [ranks.fork(run, rank) for rank in range(size)]
	for rank in started:
		rank.result()


class Mpi(unittest.TestCase):
	def test_collectives(self):
		def run(comm):
			n, rank = comm.Get_size(), comm.Get_rank()
			mine, total = array.array("i", [rank] * n), array.array("i", [0] * n)
			comm.Allreduce(mine, total)
			assert list(total) == [n * (n - 1) // 2] * n
			comm.Reduce(mine, total if rank == 0 else None, op=mpi.MAX)
			assert rank or list(total) == [n - 1] * n
			comm.Bcast(total)
			assert list(total) == [n - 1] * n
			one = array.array("i", [rank])
			comm.Allgather(one, total)
			assert list(total) == list(range(n))
			comm.Scatter(total if rank == 0 else None, one)
			assert one[0] == rank
			comm.Gather(one, total if rank == 0 else None)
			comm.Alltoall(mine, total)
			assert list(total) == list(range(n))
			comm.Reduce_scatter_block(total, one)
			assert one[0] == n * rank
			comm.Barrier()

		on_mpi(3, run)

	def test_blocks_of_different_lengths(self):
		def run(comm):
			n, rank = comm.Get_size(), comm.Get_rank()
			counts = [k + 1 for k in range(n)]
			displs = [sum(counts[:k]) + k for k in range(n)] # a gap of one behind each
			mine = array.array("i", [rank] * counts[rank])
			packed = array.array("i", [k for k in range(n) for _ in range(k + 1)])
			into = array.array("i", [-1] * len(packed))
			comm.Allgatherv(mine, [into, counts])
			assert into == packed
			spread = array.array("i", [-1] * (len(packed) + n))
			comm.Allgatherv(mine, [spread, (counts, displs)])
			assert [spread[d] for d in displs] == list(range(n)) and spread[-1] == -1
			into = array.array("i", [-1] * len(packed))
			comm.Gatherv(mine, [into, counts] if rank == 1 else None, 1)
			assert rank != 1 or into == packed
			got = array.array("i", [-1] * counts[rank])
			comm.Scatterv([spread, counts, displs] if rank == 0 else None, got)
			assert got == mine
			comm.Reduce_scatter(packed, got, counts)
			assert list(got) == [n * rank] * counts[rank]
			ones, every = [1] * n, array.array("i", range(n))
			comm.Alltoallv([array.array("i", [rank] * n), ones], [every, ones])
			assert list(every) == list(range(n))
			raises(rondo.InvalidError, comm.Allgatherv, mine, packed)

		on_mpi(2, run)
		on_mpi(3, run)

	def test_transfers_and_requests(self):
		def run(comm):
			other, theirs = 1 - comm.rank, bytearray(1)
			comm.Sendrecv(bytes([comm.rank]), other, recvbuf=theirs, source=other)
			assert theirs[0] == other
			if comm.rank == 0:
				comm.Send(b"a", 1)
				comm.Isend(b"b", 1).wait()
			else:
				status = mpi.Status()
				comm.Recv(theirs, status=status)
				assert theirs == b"a"
				assert (status.Get_source(), status.Get_tag(), status.Get_count()) == (0, 0, 1)
				comm.Irecv(theirs, 0).wait()
				assert theirs == b"b"
			request = comm.Iallreduce(mpi.IN_PLACE, theirs, op=mpi.MAX)
			request.wait()
			comm.Ibcast(theirs).wait()

		on_mpi(2, run)

	def test_communicators_are_of_the_same_class(self):
		def run(comm):
			part = comm.Split(0, -comm.rank)
			assert part.Get_rank() == 1 - comm.Get_rank()
			copy = part.Dup()
			copy.Barrier()
			copy.Free()
			part.Free()
			assert comm.Split(mpi.UNDEFINED) is None

		on_mpi(2, run)

	def test_lists_are_refused(self):
		def run(comm):
			error = raises(rondo.InvalidError, comm.Allreduce, [bytearray(1), "INT"], bytearray(1))
			assert "give the array alone" in str(error)

		on_mpi(1, run)


class Run(unittest.TestCase):
	def test_a_script_runs_on_each_rank_with_this_python(self):
		with tempfile.TemporaryDirectory() as folder:
			script = os.path.join(folder, "script.py")
			with open(script, "w") as file:
				file.write(SCRIPT + "import sys; print(sys.executable)\n")
			command = [sys.executable, "-m", "rondo.run", "-n", "3", script]
			done = subprocess.run(command, capture_output=True, text=True, timeout=60)
		self.assertEqual((done.returncode, done.stderr), (0, ""))
		expected = [f"{rank} of 3: 6" for rank in range(3)] + [sys.executable] * 3
		self.assertEqual(sorted(done.stdout.splitlines()), sorted(expected))

	def test_without_rondo_run_it_names_the_remedy(self):
		environment = {**os.environ, "PATH": ""}
		command = [sys.executable, "-m", "rondo.run", "-n", "2", "script.py"]
		done = subprocess.run(command, capture_output=True, text=True, env=environment)
		self.assertEqual(done.returncode, 1)
		self.assertIn("add its folder to PATH", done.stderr)


class Library(unittest.TestCase):
	def test_a_library_that_is_not_there(self):
		environment = {**os.environ, "RONDO_LIBRARY": "/nowhere/librondo.so"}
		command = [sys.executable, "-c", "import rondo"]
		done = subprocess.run(command, capture_output=True, text=True, env=environment)
		self.assertIn("ImportError: rondo needs librondo.so.0.1: set RONDO_LIBRARY", done.stderr)

	def test_a_library_of_another_version(self):
		environment = {**os.environ, "RONDO_LIBRARY": "libc.so.6"}
		command = [sys.executable, "-c", "import rondo"]
		done = subprocess.run(command, capture_output=True, text=True, env=environment)
		self.assertIn("it is another version than this package", done.stderr)

	def test_the_version_and_the_types_are_the_librarys(self):
		from rondo._library import library
		from rondo._types import SIZES

		self.assertEqual(rondo.__version__, rondo.version())
		for kind in rondo.Type:
			self.assertEqual(library.rondo_type_size(kind), SIZES[kind])
		self.assertEqual(library.rondo_type_size(len(rondo.Type)), 0)


if __name__ == "__main__":
	unittest.main()
