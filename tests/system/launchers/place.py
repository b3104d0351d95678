"""place.py LIBRARY: this process's place in its job, as rondo_get_launch() finds it."""

import ctypes
import sys


class Launch(ctypes.Structure):
    _fields_ = [("launcher", ctypes.c_char_p)] + [
        (name, ctypes.c_int) for name in ("rank", "size", "local_rank", "local_size")
    ]


rondo, launch = ctypes.CDLL(sys.argv[1]), Launch()
if rondo.rondo_get_launch(ctypes.byref(launch)):
    rondo.rondo_last_error.restype = ctypes.c_char_p
    sys.exit(rondo.rondo_last_error().decode())
# In one write: the ranks may share a file.
sys.stdout.write(
    f"{launch.launcher.decode()}: rank {launch.rank} of {launch.size}, "
    f"{launch.local_rank} of {launch.local_size} here\n"
)
