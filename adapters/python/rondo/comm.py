"""Communicators."""

from __future__ import annotations

import threading
import warnings
from _thread import get_ident
from functools import partial
from ctypes import byref, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p, string_at
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Sequence, TypeVar

from rondo import _call_sites, _creation, _interrupts
from rondo._buffers import Buffer, describe
from rondo._errors import REVOKED, InvalidError, RondoError, check, error_of, list_ranks
from rondo._library import ANY_SOURCE
from rondo._library import Way as _Way
from rondo._library import last_error, libc, library
from rondo._ops import Combine, Function
from rondo._types import SIZES, AnyType, OwnOp, Type, as_type
from rondo.list_collectives import ListCollectives
from rondo.requests import Message, Prepared, under_way

if TYPE_CHECKING:
	from types import TracebackType

Self = TypeVar("Self", bound="Comm")

_FACTORS: dict[Type, Any] = {
	Type.I32: c_int32,
	Type.I64: c_int64,
	Type.F32: c_float,
	Type.F64: c_double,
}


class Way(NamedTuple):
	"""One way of running a call: see Comm.explain()."""

	algorithm: str
	channels: int
	piece_size: int
	predicted_us: float
	chosen: bool


class Comm(ListCollectives):
	"""
	A communicator: ranks that make calls together. Without arguments the launcher's variables give rank,
	size and address, as rondo-run, torchrun, mpirun and srun set them.

	As a context manager it leaves at the end of the block. An exception in the block revokes it first,
	with the name of the exception's class: the other ranks would wait in vain.

		with rondo.Comm() as comm:
			comm.all_reduce(array)

	One thread at a time uses a communicator. The GIL is free while a call waits. Ctrl-C in the main
	thread ends a call: it revokes the communicator, and raises KeyboardInterrupt.
	"""

	rank: int
	size: int
	_handle: c_void_p

	def __init__(
		self,
		rank: Optional[int] = None,
		size: Optional[int] = None,
		*,
		address: Optional[str] = None,
		port: Optional[int] = None,
		unique_id: Optional[bytes] = None,
		transport: Optional[str] = None,
		interface: Optional[str] = None,
		host: Optional[str] = None,
		algo: Optional[str] = None,
		channels: int = 0,
		piece_size: int = 0,
		timeout_ms: int = 0,
		init_timeout_ms: int = 0,
	) -> None:
		"""
		Meets the other ranks. Collective. The arguments are those of struct rondo_config; one that is left
		alone comes from the environment (docs/environment.md), then from the default.
		"""
		self._handle = c_void_p()
		config = _creation.config(
			rank,
			size,
			address,
			port,
			unique_id,
			transport,
			interface,
			host,
			algo,
			channels,
			piece_size,
			timeout_ms,
			init_timeout_ms,
		)
		self._take(_creation.create(config))

	def _take(self, handle: c_void_p) -> None:
		# Calls have this very object: destroy() empties it for all of them.
		self._handle = handle
		self._thread = 0 # the thread that waits in a call
		self._interrupted = False
		self._lock = threading.Lock() # orders revoke() and destroy()
		self._ops: list[Combine] = [] # functions that calls under way may use
		self._op_error: Optional[BaseException] = None # the first of theirs
		self._end: Optional[tuple[int, str]] = None # after one, once destroyed: what ended this
		self.rank = library.rondo_comm_rank(handle)
		self.size = library.rondo_comm_size(handle)
		_interrupts.comms.add(self)
		_interrupts.watch()

	def _of(self: Self, handle: c_void_p) -> Self:
		comm = type(self).__new__(type(self))
		comm._take(handle)
		return comm

	# ---- Calls of the library ----

	def _wait(self, function: Callable[..., int], *arguments: Any) -> None:
		"""A function that waits for other ranks. Ctrl-C revokes this communicator meanwhile."""
		_call_sites.give(_call_sites.find())
		self._thread = get_ident()
		try:
			code = function(self._handle, *arguments)
			if code:
				self._fail(code)
		except KeyboardInterrupt as error:
			self._explain(error)
			raise
		finally:
			self._thread = 0

	def _fail(self, code: int) -> None:
		if not self._handle:
			raise InvalidError("the communicator was destroyed")
		if self._op_error is not None: # the call itself may have succeeded
			code = library.rondo_comm_error(self._handle)
		reason = last_error()
		if code == REVOKED and self._interrupted:
			_interrupts.raise_pending()
		raise self.failure(code, reason)

	def failure(self, code: int, reason: str) -> BaseException:
		"""The exception of a call. Its cause is the exception of an operation's function, if there is one."""
		cause = self._op_error
		if cause is not None and not isinstance(cause, Exception):
			return cause # KeyboardInterrupt, for example
		error = error_of(code, reason, self._handle)
		error.__cause__ = cause
		return error

	def _explain(self, error: KeyboardInterrupt) -> None:
		if self._interrupted:
			_interrupts.explain(error, self.size)

	# ---- Its end ----

	def destroy(self) -> None:
		"""
		Waits for this communicator's requests, then leaves. It waits for no other rank: they still get
		what this one has sent. Raises the error that ended the communicator while this rank left. Ctrl-C
		ends the requests: it revokes the communicator.
		"""
		if not self._handle:
			return
		try:
			for request in under_way(self):
				request.wait_ended()
		finally:
			self._free()

	def _free(self) -> None:
		with self._lock:
			_interrupts.comms.discard(self)
			handle = c_void_p(self._handle.value)
			if self._op_error is not None:
				self._end = library.rondo_comm_error(handle), last_error()
			code = library.rondo_comm_destroy(handle)
			reason = last_error() if code else ""
			if code != InvalidError.code:
				self._handle.value = None
				self._ops.clear()
		if code:
			raise error_of(code, reason)

	def __del__(self) -> None:
		if not getattr(self, "_handle", None):
			return
		warnings.warn(f"{self!r} was never destroyed", ResourceWarning, source=self, stacklevel=2)
		library.rondo_comm_destroy(self._handle)

	def finalize(self) -> None:
		"""As destroy(), but rank 0 stays until every rank has left. Collective."""
		self._wait(library.rondo_comm_finalize)

	def revoke(self, reason: str = "") -> None:
		"""
		Ends every call on this communicator, here and on the other ranks, with RevokedError. Its text
		names this rank and the reason. Any thread may call it.
		"""
		with self._lock:
			if self._handle:
				check(library.rondo_comm_revoke(self._handle, reason.encode()))

	def __enter__(self: Self) -> Self:
		return self

	def __exit__(
		self,
		kind: Optional[type[BaseException]],
		error: Optional[BaseException],
		trace: Optional[TracebackType],
	) -> None:
		if error is None:
			self.destroy()
			return
		if self._handle and not library.rondo_comm_error(self._handle):
			self.revoke(type(error).__name__)
		try:
			self.destroy()
		except RondoError: # the first exception has the cause
			pass

	def __repr__(self) -> str:
		state = "" if self._handle else ", destroyed"
		return f"<rondo.Comm: rank {self.rank} of {self.size}{state}>"

	# ---- Its state ----

	def error(self) -> Optional[RondoError]:
		"""None while the communicator is valid, else the error that ended it. Any thread may call it."""
		code = library.rondo_comm_error(self._handle)
		return error_of(code, last_error(), self._handle) if code else None

	def failed(self) -> tuple[int, ...]:
		"""The ranks that died or were lost, in order. Any thread may call it."""
		return self._ranks(library.rondo_comm_failed)

	def late(self) -> tuple[int, ...]:
		"""The ranks that live, and held up the call that timed out, in order. Any thread may call it."""
		return self._ranks(library.rondo_comm_late)

	def _ranks(self, function: Any) -> tuple[int, ...]:
		count = function(self._handle, None, 0)
		if count < 0:
			self._fail(count)
		return list_ranks(function, self._handle)

	def set_timeout(self, timeout_ms: int) -> None:
		"""Bounds the waits of later calls; 0: the bound of the creation again."""
		check(library.rondo_comm_set_timeout(self._handle, timeout_ms))

	def connect(self, collective: str, count: int, type: AnyType) -> None:
		"""Opens the links of a call like this ahead of it. Local."""
		self._wait(library.rondo_comm_connect, collective.encode(), count, as_type(type))

	def explain(
		self, collective: str, count: int, type: AnyType, registered: bool = False
	) -> list[Way]:
		"""The ways of running a call, the cheapest first."""
		arguments = (self._handle, collective.encode(), count, as_type(type), int(registered))
		most = library.rondo_explain(*arguments, None, 0)
		if most < 0:
			self._fail(most)
		ways = (_Way * max(most, 1))()
		found = library.rondo_explain(*arguments, ways, most)
		if found < 0:
			self._fail(found)
		return [
			Way(w.algorithm.decode(), w.channels, w.piece_size, w.predicted_us, bool(w.chosen))
			for w in ways[: min(found, most)]
		]

	# ---- Communicators from this one ----

	def split(self: Self, color: int, key: int = 0) -> Optional[Self]:
		"""
		A new communicator of the ranks that give the same color, ordered by key. A rank with a negative
		color gets None. Collective.
		"""
		part = c_void_p()
		self._wait(library.rondo_comm_split, color, key, byref(part))
		return self._of(part) if part else None

	def duplicate(self: Self) -> Self:
		"""A new communicator of the same ranks. Collective."""
		copy = c_void_p()
		self._wait(library.rondo_comm_duplicate, byref(copy))
		return self._of(copy)

	def create_group(self: Self, ranks: Sequence[int], tag: int = 0) -> Self:
		"""
		A new communicator of the listed ranks, numbered as in the list. They alone call it, with equal
		lists and tags. Ctrl-C cancels it, and leaves this communicator as it is.
		"""
		list_ = (c_int * len(ranks))(*ranks)
		begin = lambda creation: library.rondo_comm_create_group_begin(
			self._handle, list_, len(ranks), tag, creation
		)
		return self._of(_creation.finish(begin))

	def shrink(self: Self) -> Self:
		"""
		A new communicator of the ranks that are left of this failed one, which all of them call. This one
		must still be destroyed. Ctrl-C gives the shrink up at once, and destroys this one: this rank then
		leaves the new communicator as soon as that is made.
		"""
		return self._of(_creation.shrink(self._handle, self._lock))

	def grow(self: Self, size: int, unique_id: Optional[bytes] = None) -> Self:
		"""
		A new communicator of these ranks and newcomers, `size` in all. Rank 0 gives a unique id of its own,
		and passes it to the newcomers: Comm(rank, size, unique_id=...). The others give None.
		"""
		grown = c_void_p()
		id = None if unique_id is None else byref(_creation.c_id(unique_id))
		self._wait(library.rondo_comm_grow, size, id, byref(grown))
		return self._of(grown)

	# ---- Operations ----

	def premul(self, factor: float, type: AnyType) -> OwnOp:
		"""
		A sum to which each rank brings its elements times its own factor: an op for reductions of i32,
		i64, f32 and f64. All ranks make the same operations in the same order.
		"""
		kind, op = as_type(type), c_int()
		if kind not in _FACTORS:
			raise InvalidError(f"premul() is not for {kind.name.lower()}: give i32, i64, f32 or f64")
		value = _FACTORS[kind](factor)
		check(library.rondo_op_create_premul(self._handle, byref(op), byref(value), kind))
		return OwnOp(op.value)

	def create_op(self, function: Function) -> OwnOp:
		"""
		An operation of the program's own, for reductions. function(into, a, b) computes into[i] =
		a[i] op b[i]. `a` has the values of lower ranks, `b` those of a higher one; `into` is one of
		them, or neither. Views have the elements of the call's type; f16, bf16, f8 and complex come as
		bytes. With numpy:

			op = comm.create_op(lambda into, a, b: np.hypot(a, b, out=np.asarray(into)))

		Ranks are combined in their order, so that it need not be commutative. The thread that runs the
		call calls it, with the GIL. It makes no call on a communicator. An exception of its revokes this
		one, and the call raises RevokedError from it. All ranks make the same operations in the same
		order. It stays until the communicator is destroyed.
		"""
		op = c_int()
		combine = Combine(self, function)
		check(library.rondo_op_create(self._handle, byref(op), combine.pointer, 0, None))
		self._ops.append(combine)
		return OwnOp(op.value)

	# ---- Tagged messages ----

	def send_tagged(self, array: Any, peer: int, tag: int = 0) -> Message:
		"""
		Begins to send the array to a peer, with a tag. Returns a Message: wait for it by wait(), test(), or
		`await`. It has no order with the communicator's other calls, and may wait for its receive. Any
		thread may begin it. An array is bytes here: one of another type may receive it.
		"""
		return self._message(library.rondo_send_tagged, describe(array, False), peer, tag)

	def recv_tagged(self, array: Any, peer: Optional[int] = None, tag: int = 0) -> Message:
		"""
		Begins to receive a message with this tag into the array, from a peer or from any rank. It may be
		shorter than the array: the Message's origin() tells the sender and the length.
		"""
		source = ANY_SOURCE if peer is None else peer
		return self._message(library.rondo_recv_tagged, describe(array, True), source, tag)

	def _message(self, prepare: Callable[..., int], it: Buffer, peer: int, tag: int) -> Message:
		if not self._handle:
			raise InvalidError("the communicator was destroyed")
		size = it.elements * SIZES[it.type]
		begin = partial(prepare, self._handle, it.pointer, size, peer, tag)
		return Message(Prepared(self, it, begin))

	# ---- Bytes ----

	def gather_bytes(self, data: bytes, root: int = 0) -> Optional[list[bytes]]:
		"""Each rank's bytes, of any length, on the root; None elsewhere."""
		recv, sizes = c_void_p(), (c_size_t * self.size)()
		self._wait(library.rondo_gather_bytes, data, len(data), byref(recv), sizes, root)
		return _pieces(recv, sizes) if self.rank == root else None

	def all_gather_bytes(self, data: bytes) -> list[bytes]:
		"""Each rank's bytes, of any length, on every rank."""
		recv, sizes = c_void_p(), (c_size_t * self.size)()
		self._wait(library.rondo_all_gather_bytes, data, len(data), byref(recv), sizes)
		return _pieces(recv, sizes)


def _pieces(memory: c_void_p, sizes: Any) -> list[bytes]:
	pieces, at = [], memory.value or 0
	for size in sizes:
		pieces.append(string_at(at, size))
		at += size
	libc.free(memory)
	return pieces
