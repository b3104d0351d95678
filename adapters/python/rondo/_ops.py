"""Operations of the program's own: functions of Python that the library calls."""

from __future__ import annotations

import weakref
from ctypes import c_char
from typing import TYPE_CHECKING, Any, Callable

from rondo._library import COMBINE
from rondo._types import SIZES, Type

if TYPE_CHECKING:
	from rondo.comm import Comm

View = Any # a memoryview: of integers, floats or bytes
Function = Callable[[View, View, View], object]

# Those of memoryview.cast().
_FORMATS: dict[Type, Any] = {
	Type.I8: "b",
	Type.U8: "B",
	Type.I16: "h",
	Type.U16: "H",
	Type.I32: "i",
	Type.U32: "I",
	Type.I64: "q",
	Type.U64: "Q",
	Type.F32: "f",
	Type.F64: "d",
}


def _view(address: int, count: int, kind: Type) -> View:
	memory = (c_char * (count * SIZES[kind])).from_address(address)
	return memoryview(memory).cast("B").cast(_FORMATS.get(kind, "B"))


class Combine:
	"""A function, as the library calls it. It lives until its communicator is destroyed."""

	def __init__(self, comm: Comm, function: Function) -> None:
		of = weakref.ref(comm) # which has this object

		def combine(into: int, a: int, b: int, count: int, type: int, _: object) -> None:
			comm = of()
			if comm is None or comm._op_error is not None:
				return
			kind = Type(type)
			try:
				function(_view(into, count, kind), _view(a, count, kind), _view(b, count, kind))
			except BaseException as error: # the library cannot pass it on
				comm._op_error = error
				comm.revoke(f"{error.__class__.__name__} in an operation of create_op()")

		self.pointer = COMBINE(combine)
