"""Groups: calls that run side by side at the end of a `with rondo.group():` block."""

from __future__ import annotations

import threading
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Callable, Optional

from rondo._errors import check
from rondo._library import library

if TYPE_CHECKING:
	from types import TracebackType

	from rondo.comm import Comm
	from rondo.streams import Request, Stream

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

	Arrays have their results behind the block. With a stream the block only queues the calls there, and
	`request` is then their Request.
	"""

	def __init__(self, stream: Optional[Stream] = None) -> None:
		self._stream = stream
		self._comms: dict[int, Comm] = {}
		self._kept: list[Any] = []
		self.request: Optional[Request] = None

	def __enter__(self) -> Group:
		global opened
		check(library.rondo_group_start())
		with _lock:
			opened += 1
		_stack().append(self)
		return self

	def add(self, comm: Comm, call: Callable[[Any], int]) -> None:
		"""Adds a call. Its arguments live until it has run."""
		outermost = _stack()[0]
		outermost._comms[id(comm)] = comm
		outermost._kept.append(call)
		check(call(outermost._stream._handle if outermost._stream else None), comm._handle)

	def __exit__(
		self,
		kind: Optional[type[BaseException]],
		error: Optional[BaseException],
		trace: Optional[TracebackType],
	) -> None:
		global opened
		stack = _stack()
		stack.pop()
		with _lock:
			opened -= 1
		if error is not None:
			# A group cannot be dropped: its calls run, or were refused.
			_end(self)
			return
		code = _end(self)
		if stack:
			return
		if self._stream is not None and not code:
			self.request = self._stream.record(self._kept, list(self._comms.values()))
			return
		if code:
			self._fail(code)

	def _fail(self, code: int) -> None:
		for comm in self._comms.values():
			if comm._handle and library.rondo_comm_error(comm._handle) == code:
				comm._fail(code)
		check(code)


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


def group(stream: Optional[Stream] = None) -> Group:
	"""A group of calls: see Group."""
	return Group(stream)


