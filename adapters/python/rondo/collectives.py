"""
The calls of a communicator on arrays. Every rank makes the same calls in the same order, with arrays of
the same lengths and types. An array is numpy's, one with DLPack (torch's, for example), or a Python
buffer; it lies in the host's memory and is contiguous. Calls return the array with the result.

Each call has a twin that prepares it: all_reduce_init() takes the same arguments, and returns a Call.
"""

from __future__ import annotations

from ctypes import c_int, c_size_t
from typing import TYPE_CHECKING, Any, Optional, Sequence

from rondo._buffers import Buffer, describe
from rondo._calls import Call
from rondo._errors import InvalidError
from rondo._types import C_TYPES, AnyOp, c_op



def pair(send: Any, recv: Any, send_blocks: int, recv_blocks: int) -> tuple[Buffer, Buffer]:
	"""
	Describes both arrays, of which one has send_blocks blocks and the other recv_blocks. Without recv
	both are `send`.
	"""
	if recv is None or recv is send:
		into = source = describe(send, True)
	else:
		source, into = describe(send, False), describe(recv, True)
		if source.type is not into.type:
			raise InvalidError(
				f"send has elements of {source.type.name.lower()}, and recv of"
				f" {into.type.name.lower()}: give arrays of one type"
			)
	if source.elements * recv_blocks != into.elements * send_blocks:
		raise InvalidError(
			f"send has {source.elements} elements, so that recv must have"
			f" {source.elements * recv_blocks // send_blocks}, not {into.elements}"
		)
	if source.elements % send_blocks:
		raise InvalidError(
			f"send has {source.elements} elements: give a multiple of the {send_blocks} ranks"
		)
	return source, into


class Collectives:
	"""Base of Comm: see there."""

	if TYPE_CHECKING:
		rank: int
		size: int

	def _call(self, name: str, arguments: tuple[Any, ...], out: Any) -> Call:
		return Call(self, name, arguments, out) # type: ignore[arg-type]

	def _root(self, root: int) -> c_int:
		if not 0 <= root < self.size:
			raise InvalidError(f"rank {root} is out of range: the {self.size} ranks begin at 0")
		return c_int(root)

	def all_reduce(self, send: Any, recv: Any = None, op: AnyOp = "sum") -> Any:
		"""recv = op over all ranks of send, on every rank. Without recv, in place: send has the result."""
		return self.all_reduce_init(send, recv, op)()

	def all_reduce_init(self, send: Any, recv: Any = None, op: AnyOp = "sum") -> Call:
		"""all_reduce(), prepared."""
		if recv is None:
			source = into = describe(send, True)
			recv = send
		else:
			source, into = pair(send, recv, 1, 1)
		kind = C_TYPES[source.type]
		arguments = (source.pointer, into.pointer, c_size_t(source.elements), kind, c_op(op))
		return self._call("all_reduce", arguments, recv)

	def reduce(self, send: Any, recv: Any = None, op: AnyOp = "sum", root: int = 0) -> Any:
		"""
		recv = op over all ranks of send, on the root. Without recv, in place there. Other ranks need no
		recv, and get None.
		"""
		return self.reduce_init(send, recv, op, root)()

	def reduce_init(
		self, send: Any, recv: Any = None, op: AnyOp = "sum", root: int = 0
	) -> Call:
		"""reduce(), prepared."""
		c_root = self._root(root)
		if self.rank == root:
			source, into = pair(send, recv, 1, 1)
			recv = send if recv is None else recv
			to = into.pointer
		else:
			source, to, recv = describe(send, False), None, None
		count, kind = c_size_t(source.elements), C_TYPES[source.type]
		return self._call("reduce", (source.pointer, to, count, kind, c_op(op), c_root), recv)

	def broadcast(self, array: Any, root: int = 0) -> Any:
		"""The array of every rank = the root's."""
		return self.broadcast_init(array, root)()

	def broadcast_init(self, array: Any, root: int = 0) -> Call:
		"""broadcast(), prepared."""
		c_root = self._root(root)
		it = describe(array, self.rank != root)
		arguments = (it.pointer, it.pointer, c_size_t(it.elements), C_TYPES[it.type], c_root)
		return self._call("broadcast", arguments, array)

	def reduce_scatter(self, send: Any, recv: Any, op: AnyOp = "sum") -> Any:
		"""recv = op over all ranks of block `rank` of send, which has a block for each rank."""
		return self.reduce_scatter_init(send, recv, op)()

	def reduce_scatter_init(self, send: Any, recv: Any, op: AnyOp = "sum") -> Call:
		"""reduce_scatter(), prepared."""
		source, into = pair(send, recv, self.size, 1)
		count, kind = c_size_t(into.elements), C_TYPES[into.type]
		arguments = (source.pointer, into.pointer, count, kind, c_op(op))
		return self._call("reduce_scatter", arguments, recv)

	def all_gather(self, send: Any, recv: Any) -> Any:
		"""Block k of recv = rank k's send, on every rank."""
		return self.all_gather_init(send, recv)()

	def all_gather_init(self, send: Any, recv: Any) -> Call:
		"""all_gather(), prepared."""
		source, into = pair(send, recv, 1, self.size)
		count, kind = c_size_t(source.elements), C_TYPES[source.type]
		return self._call("all_gather", (source.pointer, into.pointer, count, kind), recv)

	def all_to_all(self, send: Any, recv: Any = None) -> Any:
		"""Block k of recv = block `rank` of rank k's send. Without recv, in place."""
		return self.all_to_all_init(send, recv)()

	def all_to_all_init(self, send: Any, recv: Any = None) -> Call:
		"""all_to_all(), prepared."""
		source, into = pair(send, recv, self.size, self.size)
		count, kind = c_size_t(source.elements // self.size), C_TYPES[source.type]
		arguments = (source.pointer, into.pointer, count, kind)
		return self._call("all_to_all", arguments, send if recv is None else recv)

	def gather(self, send: Any, recv: Any = None, root: int = 0) -> Any:
		"""Block k of the root's recv = rank k's send. Other ranks need no recv, and get None."""
		return self.gather_init(send, recv, root)()

	def gather_init(self, send: Any, recv: Any = None, root: int = 0) -> Call:
		"""gather(), prepared."""
		c_root = self._root(root)
		if self.rank == root:
			if recv is None:
				raise InvalidError("the root of gather() needs recv")
			source, into = pair(send, recv, 1, self.size)
			to = into.pointer
		else:
			source, to, recv = describe(send, False), None, None
		count, kind = c_size_t(source.elements), C_TYPES[source.type]
		return self._call("gather", (source.pointer, to, count, kind, c_root), recv)

	def scatter(self, send: Any, recv: Any, root: int = 0) -> Any:
		"""recv = block `rank` of the root's send. Other ranks give None for send."""
		return self.scatter_init(send, recv, root)()

	def scatter_init(self, send: Any, recv: Any, root: int = 0) -> Call:
		"""scatter(), prepared."""
		c_root = self._root(root)
		if self.rank == root:
			source, into = pair(send, recv, self.size, 1)
			pointer = source.pointer
		else:
			into, pointer = describe(recv, True), None
		count, kind = c_size_t(into.elements), C_TYPES[into.type]
		return self._call("scatter", (pointer, into.pointer, count, kind, c_root), recv)

	def send(self, array: Any, peer: int) -> None:
		"""Sends the array to a peer. Two ranks that exchange arrays put both calls into a group."""
		self.send_init(array, peer)()

	def send_init(self, array: Any, peer: int) -> Call:
		"""send(), prepared."""
		it = describe(array, False)
		arguments = (it.pointer, c_size_t(it.elements), C_TYPES[it.type], self._root(peer))
		return self._call("send", arguments, None)

	def recv(self, array: Any, peer: int) -> Any:
		"""Receives into the array, which has the length and type of the peer's."""
		return self.recv_init(array, peer)()

	def recv_init(self, array: Any, peer: int) -> Call:
		"""recv(), prepared."""
		it = describe(array, True)
		arguments = (it.pointer, c_size_t(it.elements), C_TYPES[it.type], self._root(peer))
		return self._call("recv", arguments, array)

	def barrier(self) -> None:
		"""No rank returns before every rank has called."""
		self.barrier_init()()

	def barrier_init(self) -> Call:
		"""barrier(), prepared."""
		return self._call("barrier", (), None)

	def _sizes(self, counts: Optional[Sequence[int]], name: str) -> Any:
		if counts is None:
			return None
		if len(counts) != self.size or min(counts) < 0:
			raise InvalidError(f"{name} has a number of elements for each of the {self.size} ranks")
		return (c_size_t * self.size)(*counts)
