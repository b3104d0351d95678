"""
Rondo: collectives among processes. Calls take numpy's arrays, those with DLPack and Python's buffers.

	import numpy, rondo
	with rondo.Comm() as comm:
		print(comm.all_reduce(numpy.ones(4)))

Start it by `python -m rondo.run -n 2 script.py`, or by torchrun, mpirun or srun. docs/python.md has more.
"""

from rondo._creation import Launch, launch, unique_id
from rondo._errors import (
	BrokenError,
	DiedError,
	InvalidError,
	LeftError,
	MismatchError,
	OutOfMemoryError,
	ProtocolError,
	RevokedError,
	RondoError,
	SettingError,
	SystemCallError,
	TimeoutError,
	UnreachableError,
	UnsupportedError,
)
from rondo._calls import Call
from rondo._groups import Group, GroupCall, group, group_init
from rondo._library import version
from rondo._types import Op, OwnOp, Type
from rondo.comm import Comm, Way
from rondo.memory import alloc
from rondo.requests import Request

__version__ = version()
__all__ = [
	"BrokenError",
	"Call",
	"Comm",
	"DiedError",
	"Group",
	"GroupCall",
	"InvalidError",
	"Launch",
	"LeftError",
	"MismatchError",
	"Op",
	"OutOfMemoryError",
	"OwnOp",
	"ProtocolError",
	"Request",
	"RevokedError",
	"RondoError",
	"SettingError",
	"SystemCallError",
	"TimeoutError",
	"Type",
	"UnreachableError",
	"UnsupportedError",
	"Way",
	"alloc",
	"group",
	"group_init",
	"launch",
	"unique_id",
	"version",
]
