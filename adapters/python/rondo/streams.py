"""Host streams, and requests: calls that run beside the program, also under asyncio."""

from __future__ import annotations

import asyncio
import itertools
import threading
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, Callable, Generator, Iterable, Optional

from rondo import _interrupts
from rondo._errors import RondoError, check, error_of
from rondo._library import RUN, last_error, library

if TYPE_CHECKING:
	from types import TracebackType

	from rondo.comm import Comm

_pending: dict[int, Callable[[], None]] = {}
_numbers = itertools.count(1)
_local = threading.local()


@RUN # type: ignore[untyped-decorator, unused-ignore]
def _run(argument: int) -> None:
	_local.inside = True
	try:
		_pending.pop(argument)()
	finally:
		_local.inside = False


def release(function: Callable[[], Any]) -> None:
	"""Calls a function that may wait for streams; not on a stream's own thread, which would wait for itself."""
	if getattr(_local, "inside", False):
		threading.Thread(target=function, name="rondo release").start()
	else:
		function()


def _queue(handle: Any, function: Callable[[], None]) -> None:
	number = next(_numbers)
	_pending[number] = function
	code = library.rondo_stream_call(handle, _run, number)
	if code:
		del _pending[number]
		check(code)


class Request:
	"""
	Work on a stream: all that was queued before it. Wait for it by wait(), by test(), or by `await`.

	It keeps the arrays of its calls alive, also where the program drops it.
	"""

	def __init__(self, stream: Stream, kept: Any, comms: Iterable[Comm]) -> None:
		self._stream: Optional[Stream] = stream
		self._kept = kept
		self._comms = list(comms)
		self._lock = threading.Lock()
		self._done = threading.Event()
		self._code = 0
		self._reason = ""
		self._waiters: list[Callable[[], None]] = []
		_queue(stream._handle, self._finish)

	def _finish(self) -> None:
		"""On the stream's thread, behind the work."""
		stream = self._stream
		assert stream is not None
		self._code = library.rondo_stream_query(stream._handle)
		if self._code:
			self._reason = last_error()
		self._stream = self._kept = None
		with self._lock:
			self._done.set()
			waiters, self._waiters = self._waiters, []
		for waiter in waiters:
			waiter()

	def test(self) -> bool:
		"""Whether the work is done. Raises its error, if it failed."""
		if not self._done.is_set():
			return False
		self._check()
		return True

	def wait(self, timeout: Optional[float] = None) -> bool:
		"""
		Waits until the work is done, at most `timeout` seconds: returns whether it is. Raises its error,
		if it failed. Ctrl-C revokes the communicators of the request, and raises KeyboardInterrupt.
		"""
		try:
			if not self._done.wait(timeout):
				return False
		except KeyboardInterrupt as error:
			self._revoke("KeyboardInterrupt")
			self._done.wait()
			_interrupts.explain(error, max((comm.size for comm in self._comms), default=0))
			raise
		self._check()
		return True

	def _check(self) -> None:
		if self._code:
			raise self._error()

	def _error(self) -> RondoError:
		handle = next((c._handle for c in self._comms if c._handle and c.error()), None)
		return error_of(self._code, self._reason, handle)

	def _revoke(self, reason: str) -> None:
		for comm in self._comms:
			comm.revoke(reason)

	def __await__(self) -> Generator[Any, None, None]:
		"""
		Waits in a coroutine. A coroutine that is cancelled meanwhile revokes the communicators of the
		request, for their other ranks would wait in vain.
		"""
		return self._wait_in_loop().__await__()

	async def _wait_in_loop(self) -> None:
		loop = asyncio.get_running_loop()
		done: asyncio.Future[None] = loop.create_future()

		def finish() -> None:
			if not done.done():
				done.set_result(None)

		def wake() -> None:
			try:
				loop.call_soon_threadsafe(finish)
			except RuntimeError: # the loop has been closed: nobody waits
				pass

		with self._lock:
			if self._done.is_set():
				done.set_result(None)
			else:
				self._waiters.append(wake)
		try:
			await done
		except asyncio.CancelledError:
			self._revoke("the coroutine that waited was cancelled")
			# The library uses the arrays until then: a moment, for the call has ended.
			self._done.wait()
			raise
		self._check()


class Stream:
	"""
	A queue of calls with a thread that runs them, in order. Calls are queued by Call.start(), or by
	rondo.group(stream). The first failure on a stream sticks: make a new one after it.
	"""

	def __init__(self) -> None:
		self._handle = c_void_p() # as Comm's: a call has it as it is
		check(library.rondo_stream_create(byref(self._handle)))

	def record(self, kept: Any = None, comms: Iterable[Comm] = ()) -> Request:
		"""A request for all that has been queued. `kept` stays alive until then."""
		return Request(self, kept, comms)

	def call(self, function: Callable[[], None]) -> None:
		"""
		Queues a call of function() on the stream's thread. It is called in any case, also behind a
		failure. It may not wait for work behind it.
		"""
		_queue(self._handle, function)

	def synchronize(self) -> None:
		"""Waits until all that has been queued is done. Raises the stream's first failure."""
		self.record().wait()
		# No wait, but for the request's own function to return.
		check(library.rondo_stream_synchronize(self._handle))

	def query(self) -> bool:
		"""Whether all that has been queued is done. Raises the stream's first failure."""
		code = library.rondo_stream_query(self._handle)
		if code > 0:
			return False
		check(code)
		return True

	def destroy(self) -> None:
		"""Finishes the queued work, and ends the stream's thread."""
		if self._handle:
			handle = c_void_p(self._handle.value)
			self._handle.value = None
			release(lambda: library.rondo_stream_destroy(handle))

	__del__ = destroy

	def __enter__(self) -> Stream:
		return self

	def __exit__(
		self,
		kind: Optional[type[BaseException]],
		error: Optional[BaseException],
		trace: Optional[TracebackType],
	) -> None:
		self.destroy()
