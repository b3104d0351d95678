"""Making communicators. Ctrl-C, or another exception of a signal's handler, ends it at once."""

from __future__ import annotations

import threading
import time
from ctypes import POINTER, byref, c_void_p, pointer, sizeof
from typing import Callable, NamedTuple, Optional

from rondo import _interrupts
from rondo._errors import InvalidError, check, error_of
from rondo._library import ID_SIZE, PENDING, Config, UniqueId, last_error, library
from rondo._library import Launch as _Launch


class Launch(NamedTuple):
	"""The place of this process in its job: see launch()."""

	launcher: str
	rank: int
	size: int
	local_rank: Optional[int]
	local_size: Optional[int]
	processors: int


def launch() -> Launch:
	"""
	This process's rank and the number of ranks, as its launcher's variables give them: 0 and 1 without a
	launcher. local_rank and local_size count the ranks of this host, and may be None. `processors` are
	this rank's share for its computation. It makes no communicator.
	"""
	raw = _Launch()
	check(library.rondo_get_launch(byref(raw)))
	return Launch(
		raw.launcher.decode(),
		raw.rank,
		raw.size,
		raw.local_rank if raw.local_rank >= 0 else None,
		raw.local_size if raw.local_size >= 0 else None,
		raw.processors,
	)


def unique_id() -> bytes:
	"""
	128 bytes by which ranks meet without a launcher. Rank 0's process makes them and passes them to the
	others: Comm(rank, size, unique_id=...). Each communicator takes an id of its own.
	"""
	raw = UniqueId()
	check(library.rondo_get_unique_id(byref(raw)))
	return bytes(raw)


def c_id(id: bytes) -> UniqueId:
	"""An id as rondo.h has it."""
	if len(id) != ID_SIZE:
		raise InvalidError(f"a unique id has {ID_SIZE} bytes, not {len(id)}")
	return UniqueId.from_buffer_copy(id)


def _text(value: Optional[str]) -> Optional[bytes]:
	return None if value is None else value.encode()


def config(
	rank: Optional[int],
	size: Optional[int],
	address: Optional[str],
	port: Optional[int],
	unique_id: Optional[bytes],
	transport: Optional[str],
	interface: Optional[str],
	host: Optional[str],
	algo: Optional[str],
	channels: int,
	piece_size: int,
	timeout_ms: int,
	init_timeout_ms: int,
) -> Config:
	"""struct rondo_config. None, or 0, leaves a field to the environment."""
	return Config(
		sizeof(Config),
		-1 if rank is None else rank,
		-1 if size is None else size,
		_text(address),
		-1 if port is None else port,
		-1,
		_text(transport),
		_text(interface),
		_text(host),
		_text(algo),
		channels,
		piece_size,
		timeout_ms,
		init_timeout_ms,
		-1,
		POINTER(UniqueId)() if unique_id is None else pointer(c_id(unique_id)),
	)


def create(config: Config) -> c_void_p:
	"""A communicator's handle."""
	return finish(lambda creation: library.rondo_comm_create_begin(creation, byref(config)))


def finish(begin: Callable[[object], int]) -> c_void_p:
	"""
	The handle of the creation that begin(a pointer to it) begins. Signals are handled meanwhile: their
	exceptions cancel it.
	"""
	creation, handle = c_void_p(), c_void_p()
	codes = [PENDING]
	start = time.monotonic()

	# In one bytecode: an exception of a signal must not lose the end, which frees the creation.
	def test() -> None:
		codes[:] = map(library.rondo_comm_create_test, (creation,), (byref(handle),))

	try:
		check(begin(byref(creation)))
		test()
		while codes[0] == PENDING:
			time.sleep(min(0.002, 20e-6 + (time.monotonic() - start) / 8))
			test()
	except BaseException as error:
		if not creation:
			raise
		if codes[0] == PENDING:
			library.rondo_comm_create_cancel(creation)
			library.rondo_comm_create_test(creation, byref(handle))
		library.rondo_comm_destroy(handle)
		_interrupts.settle()
		if isinstance(error, KeyboardInterrupt):
			error.args = ("Ctrl-C cancelled the creation of a communicator, on all of its ranks",)
		raise
	check(codes[0])
	return handle


def shrink(failed: c_void_p, lock: threading.Lock) -> c_void_p:
	"""
	The handle of a shrunk communicator. A thread makes it, for signals are handled meanwhile: their
	exceptions leave both communicators to the thread, which destroys them. The lock orders what is done
	with the handle of the failed one.
	"""
	handle, shrunk = c_void_p(failed.value), c_void_p()
	ended: list[tuple[int, str]] = []
	given_up = False

	def destroy() -> None:
		library.rondo_comm_destroy(shrunk)
		library.rondo_comm_destroy(handle)

	def run() -> None:
		code = library.rondo_comm_shrink(handle, byref(shrunk))
		reason = last_error() if code else ""
		with lock:
			ended.append((code, reason))
		if given_up:
			destroy()

	thread = threading.Thread(target=run, name="rondo shrink", daemon=True)
	try:
		thread.start()
		thread.join()
	except BaseException as error:
		with lock:
			given_up, failed.value = not ended, None
		if not given_up:
			destroy()
		if isinstance(error, KeyboardInterrupt):
			error.args = ("Ctrl-C gave up the shrink, and destroyed the communicator",)
		raise
	code, reason = ended[0]
	if code:
		raise error_of(code, reason, failed)
	return shrunk
