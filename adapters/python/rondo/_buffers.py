"""
Arrays as addresses: describe() takes numpy's arrays, those with DLPack, and Python's buffers.

A pointer stands for the array in a call. It is a value of ctypes, and keeps the memory alive.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from ctypes import c_void_p
from typing import Any, Callable, NamedTuple, Optional

from rondo._errors import InvalidError
from rondo._types import SIZES, Type


class Buffer(NamedTuple):
	"""An array: a value for ctypes, the number of elements, and their type."""

	pointer: Any
	elements: int
	type: Type


class Address(c_void_p):
	"""An address, with the object that owns its memory."""

	owner: Any


_Reader = Callable[[Any, bool], Buffer]
_readers: dict[type, _Reader] = {}
_Bytes = ctypes.c_char * 0 # of no length: from_buffer() then takes a buffer of any


def describe(array: Any, writable: bool) -> Buffer:
	"""Where the array lies. InvalidError, with a remedy, where the library could not use it."""
	reader = _readers.get(type(array))
	if reader is None:
		reader = _readers[type(array)] = _find_reader(array)
	return reader(array, writable)


def address_of(pointer: Any) -> int:
	"""The address that a pointer of describe() stands for."""
	if isinstance(pointer, c_void_p):
		return pointer.value or 0
	return ctypes.addressof(pointer)


def _find_reader(array: Any) -> _Reader:
	numpy = sys.modules.get("numpy")
	if numpy is not None and isinstance(array, numpy.ndarray):
		return _read_numpy
	if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
		return _read_dlpack
	try:
		memoryview(array)
	except TypeError:
		raise InvalidError(
			f"{type(array).__name__} is no array: give one of numpy or torch, or a buffer such as"
			" array.array or bytearray"
		) from None
	return _read_buffer


def _refuse_type(array: Any, name: str) -> InvalidError:
	return InvalidError(
		f"{type(array).__name__} of {name}: Rondo has no such type; give"
		f' {", ".join(t.name.lower() for t in Type)}, or a view as u8 where it only moves'
	)


def _refuse_read_only(array: Any) -> InvalidError:
	return InvalidError(
		f"the {type(array).__name__} is read-only, and the call would write to it: give a copy"
	)


def _refuse_strided(array: Any) -> InvalidError:
	return InvalidError(
		f"the {type(array).__name__} is not contiguous in C's order: give a contiguous copy"
	)


def _owned(address: int, owner: Any) -> Address:
	pointer = Address(address)
	pointer.owner = owner
	return pointer


# ---- numpy ----

_NUMPY_NAMES = {
	"int8": Type.I8,
	"uint8": Type.U8,
	"int16": Type.I16,
	"uint16": Type.U16,
	"int32": Type.I32,
	"uint32": Type.U32,
	"int64": Type.I64,
	"uint64": Type.U64,
	"float16": Type.F16,
	"bfloat16": Type.BF16, # these three are of ml_dtypes
	"float32": Type.F32,
	"float64": Type.F64,
	"float8_e4m3fn": Type.F8E4M3,
	"float8_e5m2": Type.F8E5M2,
	"bool": Type.BOOL,
	"complex64": Type.COMPLEX64,
	"complex128": Type.COMPLEX128,
}
_numpy_types: dict[Any, Type] = {}


def _read_numpy(array: Any, writable: bool) -> Buffer:
	kind = _numpy_types.get(array.dtype)
	if kind is None:
		kind = _learn_numpy_type(array)
	try:
		# It refuses read-only and strided memory by itself.
		return Buffer(_Bytes.from_buffer(array), array.size, kind)
	except (TypeError, ValueError, BufferError):
		return _read_numpy_slowly(array, writable, kind)


def _learn_numpy_type(array: Any) -> Type:
	if not array.dtype.isnative:
		raise InvalidError(
			f"the {type(array).__name__} has foreign byte order ({array.dtype.str}): give"
			" array.astype(array.dtype.newbyteorder('='))"
		)
	kind = _NUMPY_NAMES.get(array.dtype.name)
	if kind is None:
		raise _refuse_type(array, array.dtype.name)
	_numpy_types[array.dtype] = kind
	return kind


def _read_numpy_slowly(array: Any, writable: bool, kind: Type) -> Buffer:
	if not array.flags.c_contiguous:
		raise _refuse_strided(array)
	address, read_only = array.__array_interface__["data"]
	if writable and read_only:
		raise _refuse_read_only(array)
	return Buffer(_owned(address, array), array.size, kind)


# ---- DLPack ----


class _Tensor(ctypes.Structure):
	_fields_ = [
		("data", c_void_p),
		("device_type", ctypes.c_int),
		("device_id", ctypes.c_int),
		("ndim", ctypes.c_int),
		("code", ctypes.c_uint8),
		("bits", ctypes.c_uint8),
		("lanes", ctypes.c_uint16),
		("shape", ctypes.POINTER(ctypes.c_int64)),
		("strides", ctypes.POINTER(ctypes.c_int64)),
		("byte_offset", ctypes.c_uint64),
	]


class _VersionedTensor(ctypes.Structure):
	_fields_ = [
		("major", ctypes.c_uint32),
		("minor", ctypes.c_uint32),
		("context", c_void_p),
		("deleter", c_void_p),
		("flags", ctypes.c_uint64),
		("tensor", _Tensor),
	]


_HOST_DEVICES = (1, 3) # memory of the host, and pinned memory
_READ_ONLY = 1
# (code, bits): code 0 is int, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool, 10 and 12 floats of 8 bits
_DLPACK_TYPES = {
	(0, 8): Type.I8,
	(1, 8): Type.U8,
	(0, 16): Type.I16,
	(1, 16): Type.U16,
	(0, 32): Type.I32,
	(1, 32): Type.U32,
	(0, 64): Type.I64,
	(1, 64): Type.U64,
	(2, 16): Type.F16,
	(4, 16): Type.BF16,
	(2, 32): Type.F32,
	(2, 64): Type.F64,
	(10, 8): Type.F8E4M3,
	(12, 8): Type.F8E5M2,
	(6, 8): Type.BOOL,
	(5, 64): Type.COMPLEX64,
	(5, 128): Type.COMPLEX128,
}


@functools.lru_cache(maxsize=None)
def _capsules() -> Any:
	api = ctypes.pythonapi
	api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
	api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
	api.PyCapsule_GetPointer.restype = c_void_p
	return api


def _open_capsule(capsule: Any) -> tuple[_Tensor, bool]:
	"""The tensor, and whether it is read-only. The capsule keeps its memory."""
	api = _capsules()
	if api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
		address = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
		versioned = _VersionedTensor.from_address(address)
		return versioned.tensor, bool(versioned.flags & _READ_ONLY)
	return _Tensor.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor")), False


def _is_contiguous(tensor: _Tensor) -> bool:
	if not tensor.strides:
		return True
	expected = 1
	for i in reversed(range(tensor.ndim)):
		if tensor.shape[i] == 0:
			return True
		if tensor.shape[i] != 1 and tensor.strides[i] != expected:
			return False
		expected *= tensor.shape[i]
	return True


def _capsule_of(array: Any) -> Any:
	try:
		return array.__dlpack__(max_version=(1, 0))
	except TypeError: # from before version 1, which has no read-only arrays
		return array.__dlpack__()


def _read_dlpack(array: Any, writable: bool) -> Buffer:
	device = array.__dlpack_device__()[0]
	if device not in _HOST_DEVICES:
		raise InvalidError(
			f"the {type(array).__name__} is on a device (DLPack's device type {int(device)}): give one"
			" in the host's memory, such as array.cpu()"
		)
	try:
		capsule, kind = _capsule_of(array), None
	except RuntimeError: # torch 1 exports no tensors of bool
		if str(getattr(array, "dtype", None)) != "torch.bool":
			raise
		capsule, kind = _capsule_of(array.view(sys.modules["torch"].uint8)), Type.BOOL
	tensor, read_only = _open_capsule(capsule)
	kind = kind or _DLPACK_TYPES.get((tensor.code, tensor.bits))
	if kind is None or tensor.lanes != 1:
		raise _refuse_type(array, str(getattr(array, "dtype", (tensor.code, tensor.bits))))
	if not _is_contiguous(tensor):
		raise _refuse_strided(array)
	if writable and read_only:
		raise _refuse_read_only(array)
	count = 1
	for i in range(tensor.ndim):
		count *= tensor.shape[i]
	address = (tensor.data or 0) + tensor.byte_offset
	return Buffer(_owned(address, (array, capsule)), count, kind)


# ---- Python's buffers ----

_SIGNED = {1: Type.I8, 2: Type.I16, 4: Type.I32, 8: Type.I64}
_UNSIGNED = {1: Type.U8, 2: Type.U16, 4: Type.U32, 8: Type.U64}
_OTHERS = {
	"e": Type.F16,
	"f": Type.F32,
	"d": Type.F64,
	"?": Type.BOOL,
	"Zf": Type.COMPLEX64,
	"Zd": Type.COMPLEX128,
}


def _buffer_type(view: memoryview) -> Optional[Type]:
	code = view.format.lstrip("@=<" if sys.byteorder == "little" else "@=>!")
	if code in ("b", "h", "i", "l", "q", "n"):
		return _SIGNED.get(view.itemsize)
	if code in ("c", "B", "H", "I", "L", "Q", "N"):
		return _UNSIGNED.get(view.itemsize)
	return _OTHERS.get(code)


class _PyBuffer(ctypes.Structure):
	_fields_ = [
		("buf", c_void_p),
		("obj", c_void_p),
		("len", ctypes.c_ssize_t),
		("itemsize", ctypes.c_ssize_t),
		("readonly", ctypes.c_int),
		("ndim", ctypes.c_int),
		("format", ctypes.c_char_p),
		("shape", c_void_p),
		("strides", c_void_p),
		("suboffsets", c_void_p),
		("internal", c_void_p),
	]


def _read_only_address(view: memoryview) -> int:
	"""ctypes gives the address of writable buffers alone."""
	raw = _PyBuffer()
	api = ctypes.pythonapi
	api.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(raw), 0)
	address = raw.buf or 0
	api.PyBuffer_Release(ctypes.byref(raw)) # the view itself keeps the memory
	return address


def _read_buffer(array: Any, writable: bool) -> Buffer:
	view = memoryview(array)
	if view.format[:1] in (">", "!") and sys.byteorder == "little" and view.itemsize > 1:
		raise InvalidError(f"the {type(array).__name__} has foreign byte order ({view.format})")
	kind = _buffer_type(view)
	if kind is None:
		raise _refuse_type(array, f"format {view.format!r}")
	if not view.c_contiguous:
		raise _refuse_strided(array)
	count = view.nbytes // SIZES[kind]
	if not view.readonly:
		return Buffer(_Bytes.from_buffer(array), count, kind)
	if writable:
		raise _refuse_read_only(array)
	return Buffer(_owned(_read_only_address(view), view), count, kind)
