"""Memory that ranks of one host address directly."""

from __future__ import annotations

import ctypes
import weakref
from ctypes import byref, c_void_p
from typing import Any

from rondo._errors import check
from rondo._library import library


def alloc(size: int) -> Any:
	"""
	A buffer of `size` bytes, zeroed. Where the arrays of all ranks lie in such memory, calls copy each byte
	once at most. For an array: numpy.frombuffer(rondo.alloc(4000), "f4"). It is freed with its last array.
	"""
	memory = c_void_p()
	check(library.rondo_mem_alloc(byref(memory), size))
	if not memory.value:
		return (ctypes.c_ubyte * 0)()
	buffer = (ctypes.c_ubyte * size).from_address(memory.value)
	# The process's end frees it, too: arrays may still be in use then.
	weakref.finalize(buffer, library.rondo_mem_free, memory.value).atexit = False
	return buffer
