"""Lines of the program that make calls, for the library's texts: "train.py:42"."""

from __future__ import annotations

import os
import threading
from sys import _getframe
from types import CodeType
from typing import Optional

from rondo._library import set_call_site

# (id of the code, its instruction): the site, and the code, which keeps its id. They stay: the library may
# read a site until the process ends.
_sites: dict[tuple[int, int], tuple[bytes, CodeType]] = {}


class _Local(threading.local):
	site: Optional[bytes] = None


local = _Local() # its site is the one that the library has for this thread


def find() -> bytes:
	"""The line that called the package."""
	frame = _getframe(2)
	while frame.f_globals.get("__package__") == "rondo" and frame.f_back is not None:
		frame = frame.f_back
	code = frame.f_code
	key = id(code), frame.f_lasti
	known = _sites.get(key)
	if known is None:
		site = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
		known = _sites[key] = os.fsencode(site), code
	return known[0]


def give(site: bytes) -> None:
	"""Gives a site to the library, for this thread's calls."""
	local.site = site
	set_call_site(site)
