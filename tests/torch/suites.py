#!/usr/bin/env python3
"""
suites.py [--ranks N] [--backend NAME] [--scratch DIR] [FILE...] [-- UNITTEST_ARGUMENT...]: runs PyTorch's own tests of
torch.distributed with this backend's name in place of gloo's, and those of all_to_all in place of MPI's. FILE is one of
its test_c10d_gloo.py, test_c10d_common.py or such, from the sources of the installed torch; without one, the
distributed_test.py that torch brings. The scratch copy, in which the name is exchanged, goes at the end. Needs
expecttest, and rondo_torch on PYTHONPATH. Ranks are forked, as spawned ones would each import torch for each test.
"""

import argparse
import importlib.util
import os
import sys
import tempfile
import unittest

import torch

# Classes of torch's c10d and their options, which have the name in theirs.
MAKE_GROUP = """
import rondo_torch
def _rondo_group(store, rank, world_size, options=None, timeout=None):
	if options is not None:
		timeout = options._timeout
	elif timeout is None:
		timeout = torch.distributed.distributed_c10d.default_pg_timeout
	return rondo_torch._C.create(store, rank, world_size, timeout, None, [])
"""


def exchange(text, backend):
	"""A test file with the backend's name in place of gloo's."""
	if backend == "gloo":
		return text
	for quote in "\"'":
		text = text.replace(f"{quote}gloo{quote}", f"{quote}{backend}{quote}")
	for constructor in ("c10d.ProcessGroupGloo(", "dist.ProcessGroupGloo("):
		text = text.replace(constructor, "_rondo_group(")
	text = text.replace("gloo:", f"{backend}:")
	# Tests of all_to_all, which gloo lacks.
	text = text.replace('BACKEND != "mpi", "Only MPI', f'BACKEND != "{backend}", "Only MPI')
	# Behind the imports from __future__, which come first.
	lines = text.splitlines(keepends=True)
	first = next(i for i, line in enumerate(lines) if line.startswith("import "))
	return "".join(lines[:first]) + MAKE_GROUP + "".join(lines[first:])


def load(path, scratch, backend):
	"""The module of the exchanged copy, under the name of the original file."""
	name = os.path.basename(path).removesuffix(".py")
	copy = os.path.join(scratch, name + ".py")
	with open(path) as original, open(copy, "w") as file:
		file.write(exchange(original.read(), backend))
	spec = importlib.util.spec_from_file_location(name, copy)
	module = sys.modules[name] = importlib.util.module_from_spec(spec)
	spec.loader.exec_module(module)
	return module


def leave_off_replicated_tensors():
	"""Every test of torch 1.13 turns them on. The dataclasses behind them do not load in Python 3.11."""
	try:
		from torch.nn.parallel import _replicated_tensor_ddp_utils
	except ImportError:
		return
	_replicated_tensor_ddp_utils._set_ddp_with_replicated_tensor = lambda value: None


def spawning_tests(module):
	"""distributed_test.py has the tests without the class that unittest runs."""

	class TestDistBackendWithSpawn(module.TestDistBackend, module.DistributedTest._DistTestBase):
		def setUp(self):
			super().setUp()
			self._spawn_processes()
			torch.backends.cudnn.flags(enabled=True, allow_tf32=False).__enter__()

	return TestDistBackendWithSpawn


def main():
	arguments = sys.argv[1:]
	split = arguments.index("--") if "--" in arguments else len(arguments)
	parser = argparse.ArgumentParser(usage=__doc__)
	parser.add_argument("--ranks", default="2")
	parser.add_argument("--backend", default="rondo")
	parser.add_argument("--scratch")
	parser.add_argument("files", nargs="*", metavar="FILE")
	options = parser.parse_args(arguments[:split])
	with tempfile.TemporaryDirectory() as directory:
		scratch = options.scratch or directory
		os.environ.update(
			BACKEND=options.backend, WORLD_SIZE=options.ranks, TEMP_DIR=scratch, OMP_NUM_THREADS="1", MASTER_ADDR="localhost"
		)
		sys.path.insert(0, scratch)
		from torch.testing._internal import common_distributed

		def fork_processes(self):
			self._start_processes(torch.multiprocessing.get_context("fork").Process)

		common_distributed.MultiProcessTestCase._spawn_processes = fork_processes
		leave_off_replicated_tensors()
		for feature, backends in common_distributed.DistTestCases.backend_feature.items():
			if feature == "plugin" or "gloo" in backends:
				backends.add(options.backend)
		internal = os.path.join(os.path.dirname(torch.__file__), "testing", "_internal", "distributed")
		files = options.files or [os.path.join(internal, "distributed_test.py")]
		main_module = sys.modules["__main__"]
		for path in files:
			module = load(path, scratch, options.backend)
			if hasattr(module, "DistributedTest"):
				main_module.TestDistBackendWithSpawn = spawning_tests(module)
			for name, value in vars(module).items():
				if isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == module.__name__:
					setattr(main_module, name, value)
		unittest.main(argv=[sys.argv[0], *arguments[split + 1 :]], verbosity=2)


if __name__ == "__main__":
	main()
