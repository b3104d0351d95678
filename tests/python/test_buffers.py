"""Arrays that calls take, and those that they refuse."""

import array
import ctypes
import unittest

import ranks
import rondo

try:
	import numpy
except ImportError:
	numpy = None
try:
	import ml_dtypes
except ImportError:
	ml_dtypes = None
try:
	import torch
except ImportError:
	torch = None


def alone(function):
	"""Runs function(comm) on a communicator of one rank."""
	return ranks.run(1, function)


class Refused:
	"""As assertRaises(InvalidError), for the ranks' processes."""

	def __init__(self, text):
		self.text = text

	def __enter__(self):
		return self

	def __exit__(self, kind, error, trace):
		assert kind is rondo.InvalidError, f"raised {kind}, not InvalidError"
		assert isinstance(error, ValueError)
		assert self.text in str(error), f"{error}: no {self.text!r}"
		return True


class Foreign:
	"""An array of a device, by DLPack."""

	def __dlpack_device__(self):
		return (2, 0)

	def __dlpack__(self, **_):
		raise AssertionError("nobody may ask for the memory")


class Buffers(unittest.TestCase):
	def test_bytes_and_views_are_sent(self):
		def run(comm):
			for source in (b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), memoryview(bytearray(b"abcd"))):
				assert comm.all_reduce(source, bytearray(4)) == b"abcd"
			assert comm.all_reduce(memoryview(b"abcdef")[1:3], bytearray(2)) == b"bc"
			comm.broadcast(b"abcd") # the root only reads it

		alone(run)

	def test_an_array_of_ctypes_is_taken(self):
		def run(comm):
			values = (ctypes.c_double * 3)(1, 2, 3)
			assert list(comm.all_reduce(values)) == [1, 2, 3]

		alone(run)

	def test_bools_of_ctypes_are_taken(self):
		def run(comm):
			values = (ctypes.c_bool * 3)(comm.rank == 0, True, False)
			assert list(comm.all_reduce(values, op="prod")) == [False, True, False]

		ranks.run(2, run)

	def test_arrays_of_no_elements_are_taken(self):
		alone(lambda comm: comm.all_reduce(bytearray()) and None)

	def test_a_read_only_array_is_refused_in_place(self):
		def run(comm):
			for array in (b"abcd", memoryview(bytearray(4)).toreadonly()):
				with Refused("read-only"):
					comm.all_reduce(array)
				with Refused("read-only"):
					comm.all_reduce(bytearray(4), array)
				with Refused("read-only"):
					comm.recv(array, 0)

		alone(run)

	def test_a_strided_view_is_refused(self):
		def run(comm):
			with Refused("not contiguous"):
				comm.all_reduce(memoryview(bytearray(8))[::2])

		alone(run)

	def test_foreign_byte_order_is_refused(self):
		def run(comm):
			values = (ctypes.c_int32.__ctype_be__ * 2)()
			with Refused("foreign byte order"):
				comm.all_reduce(values)

		alone(run)

	def test_types_that_rondo_lacks_are_refused(self):
		def run(comm):
			with Refused("Rondo has no such type"):
				comm.all_reduce((ctypes.c_longdouble * 1)())
			with Refused("is no array"):
				comm.all_reduce([1, 2])
			with Refused("is no array"):
				comm.all_reduce(None)

		alone(run)

	def test_memory_of_a_device_is_refused(self):
		def run(comm):
			with Refused("is on a device"):
				comm.all_reduce(Foreign())

		alone(run)

	def test_lengths_and_types_that_do_not_fit_are_refused(self):
		def run(comm):
			with Refused("send has 3 elements, so that recv must have 3, not 2"):
				comm.all_reduce(bytearray(3), bytearray(2))
			with Refused("recv must have 6, not 3"):
				comm.all_gather(bytearray(3), bytearray(3))
			with Refused("a multiple of the 2 ranks"):
				comm.all_to_all(bytearray(3))
			with Refused("elements of u8, and recv of f32"):
				comm.all_reduce(bytearray(1), array.array("f", [0]))
			with Refused("its blocks end at 5"):
				comm.all_gather_v(bytearray(2), bytearray(4), [2, 2], [0, 3])
			with Refused("send has 1 elements, and its count is 2"):
				comm.all_gather_v(bytearray(1), bytearray(4), [2, 2])
			with Refused("for each of the 2 ranks"):
				comm.all_gather_v(bytearray(1), bytearray(4), [2])
			with Refused("for each of the 2 ranks"):
				comm.all_gather_v(bytearray(1), bytearray(4), [5, -1])
			with Refused("rank 2 is out of range"):
				comm.broadcast(bytearray(1), root=2)
			with Refused("op is 'plus'"):
				comm.all_reduce(bytearray(1), op="plus")
			assert list(comm.all_reduce(bytearray([1]))) == [2] # none of it did harm

		ranks.run(2, run)

	def test_memory_of_the_library_is_a_buffer(self):
		def run(comm):
			memory = rondo.alloc(8)
			memory[0] = comm.rank + 1
			comm.all_reduce(memory)
			assert list(memory) == [3, 0, 0, 0, 0, 0, 0, 0]

		ranks.run(2, run)


@unittest.skipUnless(numpy, "needs numpy")
class Numpy(unittest.TestCase):
	def test_every_type(self):
		def run(comm):
			for name in ("i1 u1 i4 u4 i8 u8 f2 f4 f8").split():
				found = comm.all_reduce(numpy.array([[1, 2], [3, comm.rank]], name))
				assert found.dtype == name and found.tolist() == [[2, 4], [6, 1]], found

		ranks.run(2, run)

	def test_bools_and_complex_numbers(self):
		def run(comm):
			found = comm.all_reduce(numpy.array([comm.rank == 1, False, True]))
			assert found.dtype == bool and found.tolist() == [True, False, True], found
			for name in ("c8", "c16"):
				values = numpy.array([1 + 2j, comm.rank * 3j], name)
				found = comm.all_reduce(values, numpy.zeros(2, name), op="prod")
				assert found.dtype == name and found.tolist() == [-3 + 4j, 0], found
				found = comm.all_reduce(values, numpy.zeros(2, name), op="avg")
				assert found.tolist() == [1 + 2j, 1.5j], found
			with Refused("max is not for complex128"):
				comm.all_reduce(numpy.zeros(2, "c16"), op="max")

		ranks.run(2, run)

	@unittest.skipUnless(ml_dtypes, "needs ml_dtypes")
	def test_types_of_ml_dtypes(self):
		def run(comm):
			for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
				found = comm.all_reduce(numpy.array([1, 2], getattr(ml_dtypes, name)))
				assert found.astype("f4").tolist() == [2, 4], found

		ranks.run(2, run)

	def test_a_read_only_array_is_sent_and_not_written(self):
		def run(comm):
			fixed = numpy.arange(3.0)
			fixed.flags.writeable = False
			assert comm.all_reduce(fixed, numpy.zeros(3)).tolist() == [0, 1, 2]
			with Refused("read-only"):
				comm.all_reduce(fixed)
			with Refused("read-only"):
				comm.all_reduce(numpy.zeros(3), fixed)

		alone(run)

	def test_strided_and_byte_swapped_arrays_are_refused(self):
		def run(comm):
			with Refused("not contiguous"):
				comm.all_reduce(numpy.zeros(8)[::2])
			with Refused("not contiguous"):
				comm.all_reduce(numpy.zeros((2, 3)).T)
			with Refused("foreign byte order"):
				comm.all_reduce(numpy.zeros(2, ">f4"))
			with Refused("no such type"):
				comm.all_reduce(numpy.zeros(2, "g"))

		alone(run)

	def test_arrays_of_no_elements_and_no_dimension(self):
		def run(comm):
			assert comm.all_reduce(numpy.zeros((0, 3))).shape == (0, 3)
			assert comm.all_reduce(numpy.array(2.0)).tolist() == 4

		ranks.run(2, run)


@unittest.skipUnless(torch, "needs torch")
class Torch(unittest.TestCase):
	def test_tensors(self):
		def run(comm):
			for name in ("int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"):
				found = comm.all_reduce(torch.tensor([1, 2], dtype=getattr(torch, name)))
				assert found.tolist() == [2, 4], found
			assert comm.all_reduce(torch.tensor([comm.rank == 1])).tolist() == [True]
			for name in ("complex64", "complex128"):
				found = comm.all_reduce(torch.tensor([1 + 2j], dtype=getattr(torch, name)))
				assert found.tolist() == [2 + 4j], found
			with Refused("not contiguous"):
				comm.all_reduce(torch.zeros(4, 4).t())

		ranks.run(2, run)


if __name__ == "__main__":
	unittest.main()
