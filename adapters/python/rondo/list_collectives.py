"""
Calls on lists of arrays: block k is array k, wherever it lies. Each array brings its own length. Other ranks
may make the twin with counts, such as all_gather_v().
"""

from __future__ import annotations

from ctypes import c_size_t, c_void_p
from typing import Any, Optional, Sequence

from rondo._buffers import Buffer, address_of, describe
from rondo._calls import Call
from rondo._errors import InvalidError
from rondo._types import C_TYPES, AnyOp, c_op
from rondo.v_collectives import VCollectives, one_type

Arrays = Sequence[Any]


def _same(mine: Buffer, block: Buffer, name: str) -> None:
	if mine.elements != block.elements:
		raise InvalidError(
			f"{name} has {mine.elements} elements, and this rank's array of the list {block.elements}"
		)


class ListCollectives(VCollectives):
	"""Base of Comm: see there."""

	def _list(self, arrays: Arrays, writable: bool) -> tuple[list[Buffer], Any, Any]:
		"""The arrays, and what the library takes: their addresses and lengths."""
		if len(arrays) != self.size:
			raise InvalidError(
				f"the list has {len(arrays)} arrays: give one for each of the {self.size} ranks"
			)
		buffers = [describe(array, writable) for array in arrays]
		for buffer in buffers[1:]:
			one_type(buffers[0], buffer)
		pointers: Any = (c_void_p * self.size)(*(address_of(b.pointer) for b in buffers))
		pointers.owners = buffers # addresses alone would not keep the arrays
		return buffers, pointers, (c_size_t * self.size)(*(b.elements for b in buffers))

	def all_gather_list(self, send: Any, recv: Arrays) -> Any:
		"""recv[k] = rank k's send, on every rank. The lengths are the same on every rank."""
		return self.all_gather_list_init(send, recv)()

	def all_gather_list_init(self, send: Any, recv: Arrays) -> Call:
		"""all_gather_list(), prepared."""
		source = describe(send, False)
		into, pointers, counts = self._list(recv, True)
		kind = one_type(source, into[0])
		_same(source, into[self.rank], "send")
		return self._call("all_gather_list", (source.pointer, pointers, counts, kind), recv)

	def reduce_scatter_list(self, send: Arrays, recv: Any, op: AnyOp = "sum") -> Any:
		"""recv = op over all ranks of send[rank]. The lengths are the same on every rank."""
		return self.reduce_scatter_list_init(send, recv, op)()

	def reduce_scatter_list_init(self, send: Arrays, recv: Any, op: AnyOp = "sum") -> Call:
		"""reduce_scatter_list(), prepared."""
		of, pointers, counts = self._list(send, False)
		into = describe(recv, True)
		kind = one_type(of[0], into)
		_same(into, of[self.rank], "recv")
		arguments = (pointers, into.pointer, counts, kind, c_op(op))
		return self._call("reduce_scatter_list", arguments, recv)

	def all_to_all_list(self, send: Arrays, recv: Arrays) -> Any:
		"""recv[k] = send[rank] of rank k."""
		return self.all_to_all_list_init(send, recv)()

	def all_to_all_list_init(self, send: Arrays, recv: Arrays) -> Call:
		"""all_to_all_list(), prepared."""
		of, sends, send_counts = self._list(send, False)
		into, recvs, recv_counts = self._list(recv, True)
		arguments = (sends, send_counts, recvs, recv_counts, one_type(of[0], into[0]))
		return self._call("all_to_all_list", arguments, recv)

	def gather_list(self, send: Any, recv: Optional[Arrays] = None, root: int = 0) -> Any:
		"""The root's recv[k] = rank k's send. Other ranks need no recv, and get None."""
		return self.gather_list_init(send, recv, root)()

	def gather_list_init(self, send: Any, recv: Optional[Arrays] = None, root: int = 0) -> Call:
		"""gather_list(), prepared."""
		c_root = self._root(root)
		source = describe(send, False)
		to: tuple[Any, ...] = (None, None)
		if self.rank == root:
			if recv is None:
				raise InvalidError("the root of gather_list() needs recv")
			into, pointers, counts = self._list(recv, True)
			to = pointers, counts
			one_type(source, into[0])
			_same(source, into[root], "send")
		arguments = (source.pointer, c_size_t(source.elements), *to, C_TYPES[source.type], c_root)
		return self._call("gather_list", arguments, recv if self.rank == root else None)

	def scatter_list(self, send: Optional[Arrays], recv: Any, root: int = 0) -> Any:
		"""recv = the root's send[rank]. Other ranks give None for send."""
		return self.scatter_list_init(send, recv, root)()

	def scatter_list_init(self, send: Optional[Arrays], recv: Any, root: int = 0) -> Call:
		"""scatter_list(), prepared."""
		c_root = self._root(root)
		into = describe(recv, True)
		source: tuple[Any, ...] = (None, None)
		if self.rank == root:
			if send is None:
				raise InvalidError("the root of scatter_list() needs send")
			of, pointers, counts = self._list(send, False)
			source = pointers, counts
			one_type(of[0], into)
			_same(into, of[root], "recv")
		arguments = (*source, into.pointer, c_size_t(into.elements), C_TYPES[into.type], c_root)
		return self._call("scatter_list", arguments, recv)
