"""Calls whose arguments are bound once."""

from __future__ import annotations

from _thread import get_ident
from functools import partial
from typing import TYPE_CHECKING, Any, Optional

from rondo import _groups
from rondo._errors import InvalidError
from rondo._library import library

if TYPE_CHECKING:
	from rondo.comm import Comm
	from rondo.streams import Request, Stream


def _unconverted(name: str) -> Any:
	"""The function for values of ctypes, which it takes as they are."""
	return library["rondo_" + name]


_functions = {
	name: _unconverted(name)
	for name in (
		"all_reduce",
		"reduce",
		"broadcast",
		"reduce_scatter",
		"all_gather",
		"all_to_all",
		"gather",
		"scatter",
		"all_gather_v",
		"all_gather_list",
		"reduce_scatter_v",
		"reduce_scatter_list",
		"all_to_all_v",
		"all_to_all_list",
		"gather_v",
		"gather_list",
		"scatter_v",
		"scatter_list",
		"send",
		"recv",
		"barrier",
	)
}


class Call:
	"""
	A prepared call, of Comm.all_reduce_init() and the like: arrays and arguments are bound once. It runs
	as often as the program likes, on the bytes that the arrays have then:

		call = comm.all_reduce_init(gradient)
		for step in range(1000):
			compute(gradient)
			call()
	"""

	__slots__ = ("_comm", "_bound", "_out")

	def __init__(self, comm: Comm, name: str, arguments: tuple[Any, ...], out: Any) -> None:
		self._comm = comm
		self._bound = partial(_functions[name], comm._handle, *arguments)
		self._out = out

	def __call__(self) -> Any:
		"""Runs the call, and returns the array with its result. In a group the end of that runs it."""
		comm = self._comm
		if _groups.opened:
			group = _groups.current()
			if group is not None:
				group.add(comm, self._bound)
				return self._out
		comm._thread = get_ident()
		try:
			code = self._bound(None)
			if code:
				comm._fail(code)
		except KeyboardInterrupt as error:
			comm._explain(error)
			raise
		finally:
			comm._thread = 0
		return self._out

	def start(self, stream: Optional[Stream] = None) -> Request:
		"""
		Queues the call on a stream, by default on one of the communicator's own, and returns a Request.
		The arrays must stay untouched until it is done. Wait by request.wait(), or `await request`.
		"""
		comm = self._comm
		if _groups.opened and _groups.current() is not None:
			raise InvalidError("start() within a group: give the stream to rondo.group(stream)")
		if stream is None:
			stream = comm._own_stream()
		code = self._bound(stream._handle)
		if code:
			comm._fail(code)
		return stream.record(self, (comm,))
