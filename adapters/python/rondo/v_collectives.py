"""
Calls on blocks of different lengths. counts[k] is the number of elements of block k, and displs[k] is
where it begins, in elements. Without displs the blocks follow each other.
"""

from __future__ import annotations

from ctypes import c_int, c_size_t
from typing import Any, Optional, Sequence

from rondo._buffers import Buffer, describe
from rondo._calls import Call
from rondo._errors import InvalidError
from rondo._types import C_TYPES, AnyOp, c_op
from rondo.collectives import Collectives

Counts = Sequence[int]


def one_type(send: Buffer, recv: Buffer) -> c_int:
	if send.type is not recv.type:
		raise InvalidError(
			f"send has elements of {send.type.name.lower()}, and recv of {recv.type.name.lower()}:"
			" give arrays of one type"
		)
	return C_TYPES[send.type]


def _exactly(array: Buffer, count: int, name: str) -> None:
	if array.elements != count:
		raise InvalidError(f"{name} has {array.elements} elements, and its count is {count}")


class VCollectives(Collectives):
	"""Base of Comm: see there."""

	def _blocks(
		self, array: Buffer, counts: Counts, displs: Optional[Counts], name: str
	) -> tuple[Any, Any]:
		"""Both as arrays of size_t, once all blocks lie in the array."""
		c_counts = self._sizes(counts, f"{name}'s counts")
		c_displs = self._sizes(displs, f"{name}'s displs")
		if displs is None:
			end = sum(counts)
		else:
			end = max(d + c for d, c in zip(displs, counts))
		if end > array.elements:
			raise InvalidError(f"{name} has {array.elements} elements, and its blocks end at {end}")
		return c_counts, c_displs

	def all_gather_v(
		self, send: Any, recv: Any, counts: Counts, displs: Optional[Counts] = None
	) -> Any:
		"""Block k of recv = rank k's send, on every rank. counts are the same on every rank."""
		return self.all_gather_v_init(send, recv, counts, displs)()

	def all_gather_v_init(
		self, send: Any, recv: Any, counts: Counts, displs: Optional[Counts] = None
	) -> Call:
		"""all_gather_v(), prepared."""
		source, into = describe(send, False), describe(recv, True)
		blocks = self._blocks(into, counts, displs, "recv")
		_exactly(source, counts[self.rank], "send")
		arguments = (source.pointer, into.pointer, *blocks, one_type(source, into))
		return self._call("all_gather_v", arguments, recv)

	def reduce_scatter_v(self, send: Any, recv: Any, counts: Counts, op: AnyOp = "sum") -> Any:
		"""recv = op over all ranks of block `rank` of send. counts are the same on every rank."""
		return self.reduce_scatter_v_init(send, recv, counts, op)()

	def reduce_scatter_v_init(
		self, send: Any, recv: Any, counts: Counts, op: AnyOp = "sum"
	) -> Call:
		"""reduce_scatter_v(), prepared."""
		source, into = describe(send, False), describe(recv, True)
		c_counts, _ = self._blocks(source, counts, None, "send")
		_exactly(into, counts[self.rank], "recv")
		kind = one_type(source, into)
		arguments = (source.pointer, into.pointer, c_counts, kind, c_op(op))
		return self._call("reduce_scatter_v", arguments, recv)

	def all_to_all_v(
		self,
		send: Any,
		send_counts: Counts,
		recv: Any,
		recv_counts: Counts,
		send_displs: Optional[Counts] = None,
		recv_displs: Optional[Counts] = None,
	) -> Any:
		"""Block k of recv = block `rank` of rank k's send."""
		return self.all_to_all_v_init(
			send, send_counts, recv, recv_counts, send_displs, recv_displs
		)()

	def all_to_all_v_init(
		self,
		send: Any,
		send_counts: Counts,
		recv: Any,
		recv_counts: Counts,
		send_displs: Optional[Counts] = None,
		recv_displs: Optional[Counts] = None,
	) -> Call:
		"""all_to_all_v(), prepared."""
		source, into = describe(send, False), describe(recv, True)
		sends = self._blocks(source, send_counts, send_displs, "send")
		recvs = self._blocks(into, recv_counts, recv_displs, "recv")
		kind = one_type(source, into)
		arguments = (source.pointer, *sends, into.pointer, *recvs, kind)
		return self._call("all_to_all_v", arguments, recv)

	def gather_v(
		self,
		send: Any,
		recv: Any = None,
		counts: Optional[Counts] = None,
		displs: Optional[Counts] = None,
		root: int = 0,
	) -> Any:
		"""Block k of the root's recv = rank k's send. The root alone gives recv, counts and displs."""
		return self.gather_v_init(send, recv, counts, displs, root)()

	def gather_v_init(
		self,
		send: Any,
		recv: Any = None,
		counts: Optional[Counts] = None,
		displs: Optional[Counts] = None,
		root: int = 0,
	) -> Call:
		"""gather_v(), prepared."""
		c_root = self._root(root)
		source = describe(send, False)
		to: tuple[Any, ...] = (None, None, None)
		if self.rank == root:
			if recv is None or counts is None:
				raise InvalidError("the root of gather_v() needs recv and counts")
			into = describe(recv, True)
			to = (into.pointer, *self._blocks(into, counts, displs, "recv"))
			one_type(source, into)
			_exactly(source, counts[root], "send")
		kind = C_TYPES[source.type]
		arguments = (source.pointer, c_size_t(source.elements), *to, kind, c_root)
		return self._call("gather_v", arguments, recv if self.rank == root else None)

	def scatter_v(
		self,
		send: Any,
		recv: Any,
		counts: Optional[Counts] = None,
		displs: Optional[Counts] = None,
		root: int = 0,
	) -> Any:
		"""recv = block `rank` of the root's send. The root alone gives send, counts and displs."""
		return self.scatter_v_init(send, recv, counts, displs, root)()

	def scatter_v_init(
		self,
		send: Any,
		recv: Any,
		counts: Optional[Counts] = None,
		displs: Optional[Counts] = None,
		root: int = 0,
	) -> Call:
		"""scatter_v(), prepared."""
		c_root = self._root(root)
		into = describe(recv, True)
		of: tuple[Any, ...] = (None, None, None)
		if self.rank == root:
			if send is None or counts is None:
				raise InvalidError("the root of scatter_v() needs send and counts")
			source = describe(send, False)
			of = (source.pointer, *self._blocks(source, counts, displs, "send"))
			one_type(source, into)
			_exactly(into, counts[root], "recv")
		arguments = (*of, into.pointer, c_size_t(into.elements), C_TYPES[into.type], c_root)
		return self._call("scatter_v", arguments, recv)
