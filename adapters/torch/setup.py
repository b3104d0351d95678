"""pip install --no-build-isolation adapters/torch: for the torch and the Rondo (by pkg-config) that are installed."""

import os
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from build import compile_extension


def rondo(variable):
	found = subprocess.run(["pkg-config", f"--variable={variable}", "rondo"], stdout=subprocess.PIPE, text=True)
	if found.returncode:
		sys.exit("rondo_torch: pkg-config finds no Rondo: ./rondo install prints the PKG_CONFIG_PATH")
	return found.stdout.strip()


class Build(build_ext):
	def build_extension(self, ext):
		output = self.get_ext_fullpath(ext.name)
		os.makedirs(os.path.dirname(output), exist_ok=True)
		compile_extension(output, rondo("includedir"), rondo("libdir"))


setup(
	name="rondo_torch",
	version="0.1.0",
	description="Rondo as a backend of torch.distributed",
	license="Apache-2.0",
	python_requires=">=3.8",
	# Debian has 1.13.0a0.
	install_requires=["torch>=1.13.0a0"],
	packages=["rondo_torch"],
	ext_modules=[Extension("rondo_torch._C", ["rondo_torch.cc"])],
	cmdclass={"build_ext": Build},
)
