"""Calls whose arguments are bound once."""

from __future__ import annotations

from _thread import get_ident
from functools import partial
from typing import TYPE_CHECKING, Any, Optional

from rondo import _call_sites, _groups
from rondo._call_sites import local
from rondo._errors import InvalidError, check
from rondo._library import library
from rondo.requests import Prepared, Request

if TYPE_CHECKING:
	from rondo.comm import Comm


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

	__slots__ = ("_comm", "_bound", "_out", "_prepared", "_site")

	def __init__(self, comm: Comm, name: str, arguments: tuple[Any, ...], out: Any) -> None:
		self._comm = comm
		self._bound = partial(_functions[name], comm._handle, *arguments, None) # on no stream
		self._out = out
		self._prepared: Optional[Prepared] = None
		self._site = _call_sites.find() # once, for it takes as long as a call

	def __call__(self) -> Any:
		"""Runs the call, and returns the array with its result. In a group the end of that runs it."""
		comm = self._comm
		if local.site is not self._site:
			_call_sites.give(self._site)
		if _groups.opened:
			group = _groups.current()
			if group is not None:
				group.add(comm, self._bound)
				return self._out
		comm._thread = get_ident()
		try:
			code = self._bound()
			if code or comm._op_error is not None:
				comm._fail(code)
		except KeyboardInterrupt as error:
			comm._explain(error)
			raise
		finally:
			comm._thread = 0
		return self._out

	def start(self) -> Request:
		"""
		Starts the call, and returns a Request: wait for it by request.wait(), or `await request`. The
		arrays must stay untouched until it is done. The call may be started again then.
		"""
		if _groups.opened and _groups.current() is not None:
			raise InvalidError("start() within a group: prepare that by rondo.group_init()")
		if self._prepared is None:
			_call_sites.give(self._site)
			check(library.rondo_group_start())
			self._bound()
			self._prepared = Prepared(self._comm, self._bound)
		return self._prepared.start()
