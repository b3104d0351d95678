"""Groups: calls that run side by side at the end of a `with rondo.group():` block."""

from __future__ import annotations

import threading
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from rondo._errors import InvalidError, RondoError, check
from rondo._library import library
from rondo.requests import Prepared, Request

if TYPE_CHECKING:
	from types import TracebackType

	from rondo.comm import Comm

AnyGroup = TypeVar("AnyGroup", bound="Group")

opened = 0 # in all threads: a call looks no further where there is none
_lock = threading.Lock()
_local = threading.local()


class Group:
	"""
	Collects the calls of this thread until the block ends, which then runs them side by side. Sends and
	receives do not wait for each other:

		with rondo.group():
			comm.send(mine, right)
			comm.recv(theirs, left)

	Arrays have their results behind the block.
	"""

	def __init__(self) -> None:
		self._comms: dict[int, Comm] = {}
		self._kept: list[Any] = []

	def __enter__(self: AnyGroup) -> AnyGroup:
		global opened
		check(library.rondo_group_start())
		with _lock:
			opened += 1
		_stack().append(self)
		return self

	def add(self, comm: Comm, call: Callable[[], int]) -> None:
		"""Adds a call. Its arguments live until it has run."""
		outermost = _stack()[0]
		outermost._comms[id(comm)] = comm
		outermost._kept.append(call)
		check(call(), comm._handle)

	def __exit__(
		self,
		kind: Optional[type[BaseException]],
		error: Optional[BaseException],
		trace: Optional[TracebackType],
	) -> None:
		_leave()
		# A group cannot be dropped: its calls run, or were refused.
		code = _end(self)
		if error is None and not _stack():
			self._check(code)

	def _check(self, code: int) -> None:
		for comm in self._comms.values():
			if comm._op_error is not None:
				comm._fail(code)
			if code and comm._handle and library.rondo_comm_error(comm._handle) == code:
				comm._fail(code)
		check(code)


class GroupCall(Group):
	"""
	A prepared group, of group_init(): calls on one communicator, collected once. It runs as often as the
	program likes, by itself or beside the program:

		with rondo.group_init() as exchange:
			comm.send(mine, right)
			comm.recv(theirs, left)
		exchange()
		exchange.start().wait()
	"""

	_prepared: Optional[Prepared] = None

	def __enter__(self: AnyGroup) -> AnyGroup:
		if _stack():
			raise InvalidError("rondo.group_init() within a group: end that first")
		return super().__enter__()

	def __exit__(
		self,
		kind: Optional[type[BaseException]],
		error: Optional[BaseException],
		trace: Optional[TracebackType],
	) -> None:
		_leave()
		try:
			comm = next(iter(self._comms.values()), None)
			self._prepared = Prepared(comm, self._kept)
		except RondoError:
			if error is None:
				raise

	def start(self) -> Request:
		"""Starts the calls, and returns their Request, as Call.start() does."""
		if self._prepared is None:
			raise InvalidError("the group has not been prepared: its block ends first")
		return self._prepared.start()

	def __call__(self) -> None:
		"""Runs the calls."""
		self.start().wait()


def _leave() -> None:
	global opened
	_stack().pop()
	with _lock:
		opened -= 1


def _end(group: Group) -> int:
	"""Runs the calls; Ctrl-C ends them by revoking their communicators."""
	comms = group._comms.values()
	thread = get_ident()
	try:
		for comm in comms:
			comm._thread = thread
		return int(library.rondo_group_end())
	except KeyboardInterrupt as error:
		for comm in comms:
			comm._explain(error)
		raise
	finally:
		for comm in comms:
			comm._thread = 0


def _stack() -> list[Group]:
	stack: Optional[list[Group]] = getattr(_local, "stack", None)
	if stack is None:
		stack = _local.stack = []
	return stack


def current() -> Optional[Group]:
	"""The innermost open group of this thread."""
	stack = _stack()
	return stack[-1] if stack else None


def group() -> Group:
	"""A group of calls: see Group."""
	return Group()


def group_init() -> GroupCall:
	"""A prepared group of calls: see GroupCall."""
	return GroupCall()


