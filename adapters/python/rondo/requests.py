"""Requests: prepared calls that run beside the program, also under asyncio."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from _thread import get_ident
from ctypes import byref, c_int, c_size_t, c_void_p
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Callable, Generator, Optional
from weakref import ref

from rondo._errors import REVOKED, InvalidError, check, error_of
from rondo._interrupts import raise_pending
from rondo._library import DONE, PENDING, last_error, library

if TYPE_CHECKING:
	from rondo.comm import Comm

	_Watched = ref[Callable[[], "Request"]]
else:
	_Watched = ref # Python 3.8 has no subscript of it


class _Watch(_Watched):
	"""Gives the reader a request whose calls have ended."""

	__slots__ = ("request",)
	request: Request


# From the start of a request until its calls have ended: Prepared.start, bound to what it starts, whose arrays
# live until then. Nobody else keeps that object, so a watch sees it go.
_under_way: dict[int, Any] = {}
_numbers = itertools.count(1)
_watches: set[_Watch] = set()
_ended: SimpleQueue[_Watch] = SimpleQueue()
# The library calls it with a number and an error, perhaps in the main thread. Neither this nor what it sets off
# is Python code, which would run handlers of signals there: an exception of theirs would be lost.
_report = DONE(_under_way.pop)
_lock = threading.Lock()
_reader: Optional[threading.Thread] = None


def _read() -> None:
	"""Collects requests that have ended, for those that await them or have dropped them."""
	while True:
		watch = _ended.get()
		watch.request._collect()
		_watches.discard(watch)
		del watch


def _start_reader() -> None:
	global _reader
	with _lock:
		if _reader is None:
			_reader = threading.Thread(target=_read, name="rondo requests", daemon=True)
			_reader.start()


def _forget() -> None:
	"""In a forked child, where no request is under way."""
	global _reader, _lock, _ended
	_reader, _lock, _ended = None, threading.Lock(), SimpleQueue()
	_watches.clear()
	_under_way.clear()


os.register_at_fork(after_in_child=_forget)


def under_way(comm: Comm) -> list[Request]:
	"""The requests of a communicator that have not ended, or that the reader collects."""
	found = [it.__self__.last() for it in list(_under_way.values())]
	found += [watch.request for watch in list(_watches)]
	return [request for request in found if request is not None and request._comm is comm]


def _none() -> None:
	return None


class Prepared(c_void_p):
	"""
	A rondo_request, with what it needs: calls on one communicator, which the end of the last group made, or
	what `prepare` makes.
	"""

	def __init__(self, comm: Optional[Comm], kept: Any, prepare: Any = None) -> None:
		super().__init__()
		self.kept = kept
		self.last: Callable[[], Optional[Request]] = _none # the request of the last start
		code = (prepare or library.rondo_group_prepare)(byref(self))
		if comm is None:
			raise error_of(code, last_error()) # a group without a call
		if code:
			comm._fail(code)
		self.comm = comm

	def __del__(self, destroy: Any = library.rondo_request_destroy) -> None:
		destroy(self)

	def start(self) -> Request:
		"""Issues the calls."""
		if not self.comm._handle:
			raise InvalidError("the communicator was destroyed")
		last = self.last()
		if last is not None:
			last.test_ended()
		return Request(self)


class Request:
	"""
	A prepared call, or group, that was started. Wait for it by wait(), by test(), or by `await`.

	It keeps the arrays of its calls alive, also where the program drops it.
	"""

	def __init__(self, prepared: Prepared) -> None:
		self._comm = prepared.comm
		self._prepared: Optional[Prepared] = prepared # until the end
		self._number = next(_numbers)
		self._lock = threading.Lock()
		self._code = 0
		self._reason = ""
		self._waiters: list[Callable[[], None]] = []
		if _reader is None:
			_start_reader()
		_under_way[self._number] = prepared.start
		code = library.rondo_request_start(prepared, _report, self._number)
		if code:
			del _under_way[self._number]
			self._comm._fail(code)
		prepared.last = ref(self)

	def __del__(self) -> None:
		prepared = self._prepared
		if prepared is not None and self._watch():
			prepared.last = lambda: self

	def _watch(self) -> bool:
		"""The reader collects the request at its end. False: it has ended, or is about to."""
		it = _under_way.get(self._number)
		if it is not None:
			watch = _Watch(it, _ended.put)
			watch.request = self
			_watches.add(watch)
		return it is not None

	def _collect(self, code: Optional[int] = None) -> None:
		"""
		The request has ended, with this code, which the library gave to this thread. Without one, it may be
		about to: the library reports that before a test sees it.
		"""
		with self._lock:
			prepared = self._prepared
			if prepared is None:
				return
			self._code = library.rondo_request_wait(prepared, -1) if code is None else code
			if self._comm._op_error is not None: # the work itself may have succeeded
				self._code = library.rondo_comm_error(self._comm._handle)
			if self._code:
				self._reason = last_error()
			if self._comm._end:
				self._code, self._reason = self._comm._end
			prepared.last, self._prepared = _none, None
			waiters, self._waiters = self._waiters, []
		for waiter in waiters:
			waiter()

	def test_ended(self) -> bool:
		"""Whether the work has ended, in whichever way."""
		prepared = self._prepared
		if prepared is not None:
			code = library.rondo_request_test(prepared)
			if code == PENDING:
				return False
			self._collect(code)
		return True

	def test(self) -> bool:
		"""Whether the work is done. Raises its error, if it failed."""
		if not self.test_ended():
			return False
		self._check()
		return True

	def wait(self, timeout: Optional[float] = None) -> bool:
		"""
		Waits until the work is done, at most `timeout` seconds: returns whether it is. Raises its error,
		if it failed. Ctrl-C revokes the request's communicator, and raises KeyboardInterrupt.
		"""
		if not self.wait_ended(timeout):
			return False
		self._check()
		return True

	def wait_ended(self, timeout: Optional[float] = None) -> bool:
		"""As wait(), but for an error of the work, which it leaves alone."""
		prepared, comm = self._prepared, self._comm
		if prepared is not None:
			timeout_ms = -1 if timeout is None else min(int(timeout * 1000 + 0.999), 0x7FFFFFFF)
			main = get_ident() == threading.main_thread().ident # the one that Ctrl-C ends
			try:
				if main:
					comm._thread = get_ident()
				code = library.rondo_request_wait(prepared, timeout_ms)
				if code == PENDING:
					return False
				self._collect(code)
				if self._code == REVOKED and comm._interrupted:
					raise_pending()
			except KeyboardInterrupt as error:
				comm._explain(error)
				raise
			finally:
				if main:
					comm._thread = 0
		return True

	def _check(self) -> None:
		if self._code:
			raise self._comm.failure(self._code, self._reason)

	def __await__(self) -> Generator[Any, None, None]:
		"""
		Waits in a coroutine. A coroutine that is cancelled meanwhile revokes the request's communicator,
		for its other ranks would wait in vain.
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
			ended = self._prepared is None
			if ended:
				done.set_result(None)
			else:
				self._waiters.append(wake)
		if not ended and not self._watch():
			self._collect()
		try:
			await done
		except asyncio.CancelledError:
			self._comm.revoke("the coroutine that waited was cancelled")
			# The library uses the arrays until then: a moment, for the call has ended.
			self._collect()
			raise
		self._check()


class Message(Request):
	"""A tagged message that is under way: see Comm.send_tagged()."""

	def __init__(self, prepared: Prepared) -> None:
		self._message = prepared
		super().__init__(prepared)

	def cancel(self) -> None:
		"""
		Cancels a receive that no message has matched: wait() and test() then raise RevokedError, and the
		communicator goes on. One that a message has matched ends as it would have.
		"""
		check(library.rondo_request_cancel(self._message))

	def origin(self) -> tuple[int, int]:
		"""The sender of a message that has come, and its length in bytes."""
		rank, size = c_int(), c_size_t()
		code = library.rondo_request_source(self._message, byref(rank), byref(size))
		if code == PENDING:
			raise InvalidError("the message is under way: wait for it first")
		check(code)
		return rank.value, size.value
