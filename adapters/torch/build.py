#!/usr/bin/env python3
"""
build.py --include DIR --library DIR (--output DIR | --prefix DIR) [--optimize N]: compiles rondo_torch for the torch
of the Python that runs this, and writes the package to DIR, or where this Python looks for packages below --prefix.
In a virtual environment that is the environment. --include and --library are where rondo.h and librondo.so are; the
extension loads the library from there. One that is newer than its sources is left as it is.

Needs a C++ compiler (CXX), torch with its headers and pybind11: Debian's python3-torch, libtorch-dev, pybind11-dev and
python3-dev, or PyPI's torch.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig

SOURCE = os.path.dirname(os.path.abspath(__file__))
SOURCES = sorted(name for name in os.listdir(SOURCE) if name.endswith((".h", ".cc", "build.py")))
EXTENSION = "_C" + sysconfig.get_config_var("EXT_SUFFIX")


def torch_flags():
	"""The compiler's options for this Python's torch."""
	try:
		import torch
	except ModuleNotFoundError:
		sys.exit(f"rondo_torch: {sys.executable} has no torch")

	home = os.path.dirname(torch.__file__)
	include = os.path.join(home, "include")
	if not os.path.exists(os.path.join(include, "torch", "csrc", "distributed", "c10d", "Store.hpp")):
		sys.exit(f"rondo_torch: {home} has no headers (Debian: libtorch-dev)")
	flags = [f'-DBUILT_FOR_TORCH="{torch.__version__}"', f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
	# Modules that share classes must agree on these.
	for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):
		value = getattr(torch._C, f"_PYBIND11_{name}", None)
		if value is not None:
			flags.append(f'-DPYBIND11_{name}="{value}"')
	python = sysconfig.get_paths()["include"]
	for directory in (include, os.path.join(include, "torch", "csrc", "api", "include"), python):
		flags += ["-isystem", directory]
	library = os.path.join(home, "lib")
	flags += [f"-L{library}", "-ltorch", "-ltorch_cpu", "-ltorch_python", "-lc10", f"-Wl,-rpath,{library}"]
	return flags


def command_for(beside, include, library, optimize):
	return [
		*shlex.split(os.environ.get("CXX", "c++")),
		"-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", "-g0", f"-O{optimize}", "-Wall", "-Wextra",
		f"-I{include}", os.path.join(SOURCE, "rondo_torch.cc"), "-o", beside,
		f"-L{library}", "-lrondo", f"-Wl,-rpath,{library}", *torch_flags(),
	]  # fmt: skip


def compile_extension(output, include, library, optimize="2"):
	"""Compiles the extension to the file `output`."""
	beside = output + ".new"
	subprocess.run(command_for(beside, include, library, optimize), check=True)
	os.replace(beside, output)


def is_current(output, include):
	"""Whether the extension is newer than its sources."""
	files = [os.path.join(SOURCE, name) for name in SOURCES] + [os.path.join(include, "rondo.h")]
	return os.path.exists(output) and all(os.path.getmtime(file) < os.path.getmtime(output) for file in files)


def read_words(path):
	if not os.path.exists(path):
		return []
	with open(path, encoding="utf-8") as file:
		return file.read().split("\n")


def packages_below(prefix):
	"""Where this Python looks for packages."""
	if sys.prefix != sys.base_prefix:
		return sysconfig.get_path("platlib")
	return sysconfig.get_path("platlib", "posix_prefix", {"base": prefix, "platbase": prefix})


def main():
	parser = argparse.ArgumentParser(usage=__doc__)
	parser.add_argument("--include", required=True, type=os.path.abspath)
	parser.add_argument("--library", required=True, type=os.path.abspath)
	parser.add_argument("--optimize", default="2")
	where = parser.add_mutually_exclusive_group(required=True)
	where.add_argument("--output", type=os.path.abspath)
	where.add_argument("--prefix", type=os.path.abspath)
	options = parser.parse_args()
	output = options.output or packages_below(options.prefix)
	package = os.path.join(output, "rondo_torch")
	extension = os.path.join(package, EXTENSION)
	os.makedirs(package, exist_ok=True)
	# Another torch, or another library, needs another extension.
	made_by = command_for(extension, options.include, options.library, options.optimize)
	note = extension + ".made_by"
	if not is_current(extension, options.include) or read_words(note) != made_by:
		compile_extension(extension, options.include, options.library, options.optimize)
		with open(note, "w", encoding="utf-8") as file:
			file.write("\n".join(made_by))
	shutil.copy(os.path.join(SOURCE, "rondo_torch", "__init__.py"), package)
	print(output)


if __name__ == "__main__":
	main()
