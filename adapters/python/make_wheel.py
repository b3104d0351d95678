#!/usr/bin/env python3
"""
make_wheel.py LIBRARY RONDO_RUN WHEEL: writes the package as a wheel, with the library and rondo-run in it. Its
file name gives version and tag: rondo-0.1.0-py3-none-manylinux_2_28_x86_64.whl. The same input gives the same bytes.
"""

import base64
import hashlib
import os
import sys
import zipfile

SOURCE = os.path.dirname(os.path.abspath(__file__))
SONAME = "librondo.so.0.1"
METADATA = """\
Metadata-Version: 2.1
Name: rondo
Version: {version}
Summary: Collectives among processes, for numpy's arrays, torch's tensors and buffers
License: Apache-2.0
Requires-Python: >=3.8
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: rondo
Root-Is-Purelib: false
Tag: {tag}
"""


def read(path):
	with open(path, "rb") as file:
		return file.read()


def contents(version, tag, library, rondo_run):
	"""(name in the wheel, bytes, executable) of each file."""
	package = os.path.join(SOURCE, "rondo")
	for name in sorted(os.listdir(package)):
		if name.endswith((".py", ".typed")):
			yield f"rondo/{name}", read(os.path.join(package, name)), False
	yield f"rondo/{SONAME}", read(library), True
	yield "rondo/bin/rondo-run", read(rondo_run), True
	info = f"rondo-{version}.dist-info"
	yield f"{info}/LICENSE", read(os.path.join(SOURCE, "..", "..", "LICENSE")), False
	yield f"{info}/METADATA", METADATA.format(version=version).encode(), False
	yield f"{info}/WHEEL", WHEEL.format(tag=tag).encode(), False


def main():
	library, rondo_run, path = sys.argv[1:]
	_, version, tag = os.path.basename(path)[: -len(".whl")].split("-", 2)
	record = ""
	with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED) as wheel:

		def add(name, data, executable):
			entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
			entry.compress_type = zipfile.ZIP_DEFLATED
			entry.external_attr = (0o100755 if executable else 0o100644) << 16
			wheel.writestr(entry, data)

		for name, data, executable in contents(version, tag, library, rondo_run):
			add(name, data, executable)
			digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
			record += f"{name},sha256={digest},{len(data)}\n"
		name = f"rondo-{version}.dist-info/RECORD"
		add(name, (record + f"{name},,\n").encode(), False)
	os.replace(path + ".part", path)


main()
