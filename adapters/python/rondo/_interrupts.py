"""
Ctrl-C during a call of the library: Python's handler runs only when the call has returned.

A thread reads the wakeup descriptor of signals, and revokes the communicators in whose calls the main
thread waits: these calls then return, and KeyboardInterrupt follows. It acts only where SIGINT raises
KeyboardInterrupt. Where another owns the wakeup descriptor, as asyncio does, it is left alone.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
import weakref
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
	from rondo.comm import Comm

_REASON = "KeyboardInterrupt"

comms: weakref.WeakSet[Comm] = weakref.WeakSet()
_acting = threading.Lock() # while signals are read, and calls ended
_pair: Optional[tuple[socket.socket, socket.socket]] = None


def watch() -> None:
	"""Takes the wakeup descriptor, where it is free. For the main thread; others change nothing."""
	global _pair
	if threading.current_thread() is not threading.main_thread():
		return
	if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
		return
	if _pair is None:
		_pair = socket.socketpair()
		_pair[1].setblocking(False)
		threading.Thread(target=_read, args=(_pair[0],), name="rondo signals", daemon=True).start()
	fd = _pair[1].fileno()
	before = signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
	if before not in (-1, fd):
		signal.set_wakeup_fd(before, warn_on_full_buffer=False)


def _forget() -> None:
	"""In a forked child, whose signals are not the parent's, and which has no thread that reads."""
	global _pair, _acting
	if _pair is None:
		return
	_acting = threading.Lock()
	before = signal.set_wakeup_fd(-1)
	if before not in (-1, _pair[1].fileno()):
		signal.set_wakeup_fd(before, warn_on_full_buffer=False)
	for end in _pair:
		end.close()
	_pair = None
	comms.clear()


os.register_at_fork(after_in_child=_forget)


def _read(end: socket.socket) -> None:
	while True:
		select.select([end], [], [])
		with _acting:
			if signal.SIGINT in end.recv(64):
				_revoke_waits()


def _revoke_waits() -> None:
	if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
		return
	main = threading.main_thread().ident
	for comm in list(comms):
		if comm._thread == main:
			comm._interrupted = True
			comm.revoke(_REASON)


def settle() -> None:
	"""Returns when the thread has seen all signals that have arrived: they end no later call."""
	for _ in range(5000):
		if _pair is None or not select.select([_pair[0]], [], [], 0)[0]:
			break
		time.sleep(0.0002)
	with _acting:
		pass


def raise_pending() -> None:
	"""Runs the handlers of signals that have arrived, which may raise KeyboardInterrupt."""
	signal.pthread_sigmask(signal.SIG_BLOCK, ())


def explain(error: KeyboardInterrupt, size: int) -> None:
	"""Gives the exception a text: it is empty where Python raises it."""
	error.args = (
		f"Ctrl-C ended the call and revoked the communicator: its {size} ranks get RevokedError",
	)
