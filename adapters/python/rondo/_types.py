"""Types of elements, and operations, with their names in rondo.h."""

from __future__ import annotations

import enum
from ctypes import c_int
from typing import Union

from rondo._errors import InvalidError


class Type(enum.IntEnum):
	"""The type of an array's elements."""

	I8 = 0
	U8 = 1
	I32 = 2
	U32 = 3
	I64 = 4
	U64 = 5
	F16 = 6
	BF16 = 7
	F32 = 8
	F64 = 9
	F8E4M3 = 10
	F8E5M2 = 11
	I16 = 12
	U16 = 13
	BOOL = 14
	COMPLEX64 = 15
	COMPLEX128 = 16


class Op(enum.IntEnum):
	"""How a reduction combines elements."""

	SUM = 0
	PROD = 1
	MIN = 2
	MAX = 3
	AVG = 4
	BAND = 5
	BOR = 6
	BXOR = 7
	LAND = 8
	LOR = 9
	LXOR = 10


AnyType = Union[Type, str]
AnyOp = Union[Op, str, "OwnOp"]

SIZES = {
	Type.I8: 1,
	Type.U8: 1,
	Type.I32: 4,
	Type.U32: 4,
	Type.I64: 8,
	Type.U64: 8,
	Type.F16: 2,
	Type.BF16: 2,
	Type.F32: 4,
	Type.F64: 8,
	Type.F8E4M3: 1,
	Type.F8E5M2: 1,
	Type.I16: 2,
	Type.U16: 2,
	Type.BOOL: 1,
	Type.COMPLEX64: 8,
	Type.COMPLEX128: 16,
}

C_TYPES = {member: c_int(member) for member in Type}


class OwnOp:
	"""An operation of one communicator: see Comm.premul() and Comm.create_op()."""

	__slots__ = ("value",)

	def __init__(self, value: int) -> None:
		self.value = value


_C_OPS: dict[AnyOp, c_int] = {member: c_int(member) for member in Op}
_C_OPS.update({member.name.lower(): c_int(member) for member in Op})


def c_op(op: AnyOp) -> c_int:
	"""The operation as a value of ctypes."""
	value = _C_OPS.get(op)
	if value is not None:
		return value
	if isinstance(op, OwnOp):
		return c_int(op.value)
	raise InvalidError(f'op is {op!r}: give one of {", ".join(o.name.lower() for o in Op)}')


def as_type(type: AnyType) -> Type:
	"""The type of this name, in any spelling of case."""
	if isinstance(type, Type):
		return type
	try:
		return Type[str(type).upper()]
	except KeyError:
		raise InvalidError(
			f'type is {type!r}: give one of {", ".join(t.name.lower() for t in Type)}'
		) from None
