"""One class of exceptions for each code of `enum rondo_error`."""

from __future__ import annotations

import builtins
from ctypes import c_int
from typing import Any

from rondo._library import last_error, library


class RondoError(Exception):
	"""
	An error of the library. Its text is the library's reason, in one line.

	code:  the number in rondo.h, e.g. -8
	name:  its name there, e.g. "RONDO_DIED"; docs/errors.md has a section for each
	ranks: ranks of the communicator that are known to have failed, in order; of a TimeoutError also
	       those that were late
	"""

	code: int = 0
	name: str = ""

	def __init__(self, reason: str, ranks: tuple[int, ...] = ()) -> None:
		super().__init__(reason)
		self.ranks = ranks


class InvalidError(RondoError, ValueError):
	"""RONDO_INVALID: an argument makes no sense. The communicator still works."""


class SettingError(RondoError):
	"""RONDO_SETTING: a variable or an argument of Comm() cannot be used."""


class OutOfMemoryError(RondoError, MemoryError):
	"""RONDO_MEMORY: memory ran out."""


class SystemCallError(RondoError):
	"""RONDO_SYSTEM: the kernel or a driver refused a call."""


class UnsupportedError(RondoError):
	"""RONDO_UNSUPPORTED: Rondo, this host or this build cannot do it."""


class UnreachableError(RondoError):
	"""RONDO_UNREACHABLE: no way leads to a rank, while a communicator is made."""


class BrokenError(RondoError):
	"""RONDO_BROKEN: a connection broke."""


class DiedError(RondoError):
	"""RONDO_DIED: a rank died. `ranks` has its number; Comm.shrink() goes on without it."""


class LeftError(RondoError):
	"""RONDO_LEFT: a rank left the communicator before a call that another made."""


class TimeoutError(RondoError, builtins.TimeoutError):
	"""RONDO_TIMEOUT: a rank was silent for too long. `ranks` has all that were late or do not answer."""


class MismatchError(RondoError):
	"""RONDO_MISMATCH: ranks made different calls."""


class ProtocolError(RondoError):
	"""RONDO_PROTOCOL: a peer sent bytes that make no sense."""


class RevokedError(RondoError):
	"""RONDO_REVOKED: a rank revoked the communicator. The text quotes its reason."""


_CLASSES: dict[int, type[RondoError]] = {
	-1: InvalidError,
	-2: SettingError,
	-3: OutOfMemoryError,
	-4: SystemCallError,
	-5: UnsupportedError,
	-6: UnreachableError,
	-7: BrokenError,
	-8: DiedError,
	-9: LeftError,
	-10: TimeoutError,
	-11: MismatchError,
	-12: ProtocolError,
	-13: RevokedError,
}
for _code, _class in _CLASSES.items():
	_class.code = _code
	_class.name = library.rondo_error_name(_code).decode()

REVOKED = RevokedError.code


def list_ranks(function: Any, handle: Any) -> tuple[int, ...]:
	"""The ranks that rondo_comm_failed() or rondo_comm_late() returns; none for a handle of None."""
	if not handle:
		return ()
	count = function(handle, None, 0)
	if count <= 0:
		return ()
	ranks = (c_int * count)()
	return tuple(ranks[: min(count, function(handle, ranks, count))])


def _ranks_at_fault(code: int, handle: Any) -> tuple[int, ...]:
	failed = list_ranks(library.rondo_comm_failed, handle)
	if code != TimeoutError.code:
		return failed
	return tuple(sorted(failed + list_ranks(library.rondo_comm_late, handle)))


def error_of(code: int, reason: str, handle: Any = None) -> RondoError:
	"""The exception of a code."""
	return _CLASSES.get(code, RondoError)(reason, _ranks_at_fault(code, handle))


def check(code: int, handle: Any = None) -> None:
	"""Raises the exception of a code, but for 0, with this thread's last reason."""
	if code:
		raise error_of(code, last_error(), handle)
