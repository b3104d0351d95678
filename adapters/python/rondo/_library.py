"""The shared library: where it is found, and the signatures of its functions."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from typing import Any

SONAME = "librondo.so.0.1"
ID_SIZE = 128


class UniqueId(ctypes.Structure):
	_fields_ = [("bytes", ctypes.c_char * ID_SIZE)]


class Launch(ctypes.Structure):
	_fields_ = [
		("launcher", c_char_p),
		("rank", c_int),
		("size", c_int),
		("local_rank", c_int),
		("local_size", c_int),
		("processors", c_int),
	]


class Config(ctypes.Structure):
	_fields_ = [
		("struct_size", c_size_t),
		("rank", c_int),
		("size", c_int),
		("address", c_char_p),
		("port", c_int),
		("rendezvous_fd", c_int),
		("transport", c_char_p),
		("interface", c_char_p),
		("host", c_char_p),
		("algo", c_char_p),
		("channels", c_int),
		("piece_size", c_size_t),
		("timeout_ms", c_int),
		("init_timeout_ms", c_int),
		("gpu", c_int),
		("unique_id", ctypes.POINTER(UniqueId)),
	]


class Way(ctypes.Structure):
	_fields_ = [
		("algorithm", ctypes.c_char * 32),
		("channels", c_int),
		("piece_size", c_size_t),
		("predicted_us", ctypes.c_double),
		("chosen", c_int),
	]


DONE = ctypes.CFUNCTYPE(None, c_void_p, c_int)
COMBINE = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_void_p)
PENDING = 1
ANY_SOURCE = -1

_OUT = ctypes.POINTER(c_void_p)
_INTS = ctypes.POINTER(c_int)

# name: (result, arguments). Collectives and transfers are not here: a call brings values of ctypes, which
# need no conversion.
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
	"rondo_version": (c_char_p, []),
	"rondo_error_name": (c_char_p, [c_int]),
	"rondo_last_error": (c_char_p, []),
	"rondo_type_size": (c_size_t, [c_int]),
	"rondo_get_unique_id": (c_int, [ctypes.POINTER(UniqueId)]),
	"rondo_get_launch": (c_int, [ctypes.POINTER(Launch)]),
	"rondo_comm_create_begin": (c_int, [_OUT, ctypes.POINTER(Config)]),
	"rondo_comm_create_test": (c_int, [c_void_p, _OUT]),
	"rondo_comm_create_cancel": (c_int, [c_void_p]),
	"rondo_comm_split": (c_int, [c_void_p, c_int, c_int, _OUT]),
	"rondo_comm_duplicate": (c_int, [c_void_p, _OUT]),
	"rondo_comm_create_group_begin": (c_int, [c_void_p, _INTS, c_int, c_int, _OUT]),
	"rondo_comm_finalize": (c_int, [c_void_p]),
	"rondo_comm_destroy": (c_int, [c_void_p]),
	"rondo_comm_revoke": (c_int, [c_void_p, c_char_p]),
	"rondo_comm_error": (c_int, [c_void_p]),
	"rondo_comm_failed": (c_int, [c_void_p, _INTS, c_int]),
	"rondo_comm_late": (c_int, [c_void_p, _INTS, c_int]),
	"rondo_comm_shrink": (c_int, [c_void_p, _OUT]),
	"rondo_comm_grow": (c_int, [c_void_p, c_int, ctypes.POINTER(UniqueId), _OUT]),
	"rondo_comm_set_timeout": (c_int, [c_void_p, c_int]),
	"rondo_comm_rank": (c_int, [c_void_p]),
	"rondo_comm_size": (c_int, [c_void_p]),
	"rondo_comm_connect": (c_int, [c_void_p, c_char_p, c_size_t, c_int]),
	"rondo_explain": (
		c_int,
		[c_void_p, c_char_p, c_size_t, c_int, c_int, ctypes.POINTER(Way), c_int],
	),
	"rondo_costs": (c_int, [c_void_p, c_char_p, c_size_t]),
	"rondo_op_create": (c_int, [c_void_p, _INTS, COMBINE, c_size_t, c_void_p]),
	"rondo_op_create_premul": (c_int, [c_void_p, _INTS, c_void_p, c_int]),
	"rondo_op_destroy": (c_int, [c_void_p, c_int]),
	"rondo_gather_bytes": (
		c_int,
		[c_void_p, c_char_p, c_size_t, _OUT, ctypes.POINTER(c_size_t), c_int],
	),
	"rondo_all_gather_bytes": (
		c_int,
		[c_void_p, c_char_p, c_size_t, _OUT, ctypes.POINTER(c_size_t)],
	),
	"rondo_group_start": (c_int, []),
	"rondo_group_end": (c_int, []),
	"rondo_mem_alloc": (c_int, [_OUT, c_size_t]),
	"rondo_mem_free": (c_int, [c_void_p]),
	"rondo_group_prepare": (c_int, [_OUT]),
	"rondo_send_tagged": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, _OUT]),
	"rondo_recv_tagged": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, _OUT]),
	"rondo_request_cancel": (c_int, [c_void_p]),
	"rondo_request_source": (c_int, [c_void_p, _INTS, ctypes.POINTER(c_size_t)]),
	"rondo_request_start": (c_int, [c_void_p, DONE, c_void_p]),
	"rondo_request_test": (c_int, [c_void_p]),
	"rondo_request_wait": (c_int, [c_void_p, c_int]),
	"rondo_request_destroy": (None, [c_void_p]),
}


def _candidates() -> list[str]:
	"""The names to try, the first that loads wins: RONDO_LIBRARY, beside the package, ldconfig's."""
	named = os.environ.get("RONDO_LIBRARY")
	if named:
		return [named]
	beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), SONAME)
	return [beside] if os.path.exists(beside) else [SONAME]


def _load() -> ctypes.CDLL:
	reasons = []
	for name in _candidates():
		try:
			return ctypes.CDLL(name)
		except OSError as error:
			reasons.append(str(error))
	raise ImportError(
		f"rondo needs {SONAME}: set RONDO_LIBRARY to its path, or add its folder to LD_LIBRARY_PATH"
		f" ({'; '.join(reasons)})"
	)


library = _load()
libc = ctypes.CDLL(None)
libc.free.argtypes = [c_void_p]
libc.free.restype = None

for _name, (_result, _arguments) in _SIGNATURES.items():
	try:
		_function = getattr(library, _name)
	except AttributeError:
		raise ImportError(
			f"{library._name} has no {_name}(): it is another version than this package;"
			" install both from one build"
		) from None
	_function.restype = _result
	_function.argtypes = _arguments

# By PyDLL, for it waits for nothing: giving up the GIL would take longer than the call.
set_call_site = ctypes.PyDLL(library._name).rondo_set_call_site
set_call_site.argtypes = [c_char_p]
set_call_site.restype = None


def last_error() -> str:
	"""The reason of this thread's last failure."""
	return str(library.rondo_last_error().decode(errors="replace"))


def version() -> str:
	"""The version of the library, e.g. "0.1.0"."""
	return str(library.rondo_version().decode())
