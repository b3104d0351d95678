"""
Upper-case twins, for readers of mpi4py: arrays as its upper-case functions take them, and its names.

	from rondo import mpi
	comm = mpi.COMM_WORLD
	comm.Allreduce(mpi.IN_PLACE, array, op=mpi.SUM)

There is no pickling: lower-case functions are those of rondo.Comm. An array brings its count and type. So
a list is for the calls whose names end in v alone: [array, counts], or [array, (counts, displs)].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Optional, Sequence

import rondo
from rondo._errors import InvalidError
from rondo._library import ANY_SOURCE
from rondo._types import AnyOp, Op
from rondo.requests import Message, Request

SUM, PROD, MIN, MAX = Op.SUM, Op.PROD, Op.MIN, Op.MAX
BAND, BOR, BXOR, LAND, LOR, LXOR = Op.BAND, Op.BOR, Op.BXOR, Op.LAND, Op.LOR, Op.LXOR
UNDEFINED = -1


class Status:
	"""What Recv() received: sender, tag, and bytes."""

	source = tag = -1
	count = 0

	def Get_source(self) -> int:
		return self.source

	def Get_tag(self) -> int:
		return self.tag

	def Get_count(self) -> int:
		return self.count


class _InPlace:
	def __repr__(self) -> str:
		return "rondo.mpi.IN_PLACE"


IN_PLACE = _InPlace()


class Comm(rondo.Comm):
	"""rondo.Comm with the names of mpi4py beside its own."""

	def Get_rank(self) -> int:
		return self.rank

	def Get_size(self) -> int:
		return self.size

	def Barrier(self) -> None:
		self.barrier()

	def Allreduce(self, sendbuf: Any, recvbuf: Any, op: AnyOp = SUM) -> None:
		self.all_reduce(*_in_place(sendbuf, recvbuf), op)

	def Reduce(self, sendbuf: Any, recvbuf: Any, op: AnyOp = SUM, root: int = 0) -> None:
		self.reduce(*_in_place(sendbuf, recvbuf), op, root)

	def Bcast(self, buf: Any, root: int = 0) -> None:
		self.broadcast(buf, root)

	def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
		self.all_gather(_given(sendbuf), recvbuf)

	def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
		self.all_to_all(*_in_place(sendbuf, recvbuf))

	def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
		self.gather(_given(sendbuf), recvbuf, root)

	def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
		self.scatter(sendbuf, _given(recvbuf), root)

	def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: AnyOp = SUM) -> None:
		self.reduce_scatter(_given(sendbuf), recvbuf, op)

	def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
		self.all_gather_v(_given(sendbuf), *_blocks(recvbuf))

	def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
		(send, counts, displs), (recv, recv_counts, recv_displs) = _blocks(sendbuf), _blocks(recvbuf)
		self.all_to_all_v(send, counts, recv, recv_counts, displs, recv_displs)

	def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
		self.gather_v(_given(sendbuf), *_blocks_of_root(recvbuf), root)

	def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
		send, counts, displs = _blocks_of_root(sendbuf)
		self.scatter_v(send, _given(recvbuf), counts, displs, root)

	def Reduce_scatter(
		self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int], op: AnyOp = SUM
	) -> None:
		self.reduce_scatter_v(_given(sendbuf), recvbuf, recvcounts, op)

	def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
		self.send_tagged(buf, dest, tag).wait()

	def Recv(
		self, buf: Any, source: int = ANY_SOURCE, tag: int = 0, status: Optional[Status] = None
	) -> None:
		message = self.Irecv(buf, source, tag)
		message.wait()
		if status is not None:
			status.source, status.count = message.origin()
			status.tag = tag

	def Sendrecv(
		self,
		sendbuf: Any,
		dest: int,
		sendtag: int = 0,
		recvbuf: Any = None,
		source: int = ANY_SOURCE,
		recvtag: int = 0,
		status: Optional[Status] = None,
	) -> None:
		sent = self.send_tagged(sendbuf, dest, sendtag)
		self.Recv(recvbuf, source, recvtag, status)
		sent.wait()

	def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: AnyOp = SUM) -> Request:
		return self.all_reduce_init(*_in_place(sendbuf, recvbuf), op).start()

	def Ibcast(self, buf: Any, root: int = 0) -> Request:
		return self.broadcast_init(buf, root).start()

	def Isend(self, buf: Any, dest: int, tag: int = 0) -> Message:
		return self.send_tagged(buf, dest, tag)

	def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = 0) -> Message:
		return self.recv_tagged(buf, None if source == ANY_SOURCE else source, tag)

	def Split(self, color: int = 0, key: int = 0) -> Optional[Comm]:
		return self.split(color, key)

	def Dup(self) -> Comm:
		return self.duplicate()

	def Free(self) -> None:
		self.destroy()

	def Abort(self, errorcode: int = 1) -> NoReturn:
		self.revoke(f"Abort({errorcode})")
		raise SystemExit(errorcode)


def _in_place(sendbuf: Any, recvbuf: Any) -> tuple[Any, Any]:
	"""Arguments of a call that takes one array in place."""
	return (recvbuf, None) if sendbuf is IN_PLACE else (_given(sendbuf), recvbuf)


def _given(buf: Any) -> Any:
	if buf is IN_PLACE:
		raise InvalidError("IN_PLACE is not for this call here: give this rank's part of the other array")
	if isinstance(buf, (list, tuple)):
		raise InvalidError("give the array alone, not a list: it brings its count and type")
	return buf


def _blocks(buf: Any) -> tuple[Any, Any, Any]:
	"""The array of a list, its counts, and its displacements: None where they are not given."""
	if isinstance(buf, (list, tuple)) and 2 <= len(buf) <= 3:
		array, counts, *displs = buf
		if not displs and len(counts) == 2 and not isinstance(counts[0], int):
			counts, *displs = counts
		return array, counts, displs[0] if displs else None
	raise InvalidError("give [array, counts] or [array, (counts, displs)]")


def _blocks_of_root(buf: Any) -> tuple[Any, Any, Any]:
	return (None, None, None) if buf is None else _blocks(buf)


_world: Optional[Comm] = None

if TYPE_CHECKING:
	COMM_WORLD: Comm


def __getattr__(name: str) -> Comm:
	"""COMM_WORLD is made where a program first uses it."""
	global _world
	if name != "COMM_WORLD":
		raise AttributeError(f"module 'rondo.mpi' has no attribute {name!r}")
	if _world is None:
		_world = Comm()
	return _world
