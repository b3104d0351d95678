"""Ranks that torchrun, rondo-run and torch.multiprocessing start, and the program at the head of docs/pytorch.md."""

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import ranks
import rondo_torch
import torch
import torch.distributed as dist
import torch.multiprocessing

assert rondo_torch
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "pytorch.md")
SUM = """
import torch, torch.distributed as dist, rondo_torch
dist.init_process_group("rondo")
tensor = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(tensor)
print(f"sum {tensor.item()}\\n", end="")
"""

# Rank 1 dies once, at step 3 of 6. Steps go on from rank 0's last checkpoint.
ELASTIC = """
import os, signal, torch, torch.distributed as dist, rondo_torch
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("rondo")
restarts, path = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), "checkpoint"
network = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(network.weight)
first = 0
if os.path.exists(path):
    first, weight = torch.load(path)
    network.weight.data.copy_(weight)
model = DistributedDataParallel(network)
for step in range(first, 6):
    if dist.get_rank() == 1 and step == 3 and restarts == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    network.weight.grad = None
    model(torch.ones(1, 1)).sum().backward()
    network.weight.data += network.weight.grad
    if dist.get_rank() == 0:
        torch.save((step + 1, network.weight.data), path)
    dist.barrier()
print(f"weight {network.weight.item()} from step {first} after {restarts} restart\\n", end="")
"""


def spawned(rank, store):
	ranks.join(store, rank, 2)
	tensor = torch.ones(3)
	dist.all_reduce(tensor)
	assert tensor[0] == 2
	if rank == 1:
		raise ValueError("of rank 1|rank 1 .* left")
	dist.all_reduce(tensor)


def environment():
	"""Without a launcher's variables: a test may run under one."""
	names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
	return {**{k: v for k, v in os.environ.items() if k not in names}, "OMP_NUM_THREADS": "1"}


class Launchers(unittest.TestCase):
	def setUp(self):
		directory = tempfile.TemporaryDirectory()
		self.addCleanup(directory.cleanup)
		self.directory = directory.name

	def run_program(self, launcher, text):
		program = os.path.join(self.directory, "program.py")
		with open(program, "w") as file:
			file.write(text)
		done = subprocess.run(
			[*launcher, program],
			env=environment(),
			cwd=self.directory,
			stdout=subprocess.PIPE,
			stderr=subprocess.PIPE,
			text=True,
			timeout=120,
		)
		self.assertEqual(done.returncode, 0, done.stderr)
		return done.stdout

	def torchrun(self):
		# Debian's 1.13 wants a redirection, which it cannot print without tee.
		logs = ["--log_dir", self.directory, "-r", "1", "-t", "1"] if torch.__version__ < "2" else []
		# The script of this Python's torch: in its environment, or of the system.
		scripts = [os.path.join(directory, "torchrun") for directory in (sysconfig.get_path("scripts"), "/usr/bin")]
		script = next(path for path in scripts if os.path.exists(path))
		return [
			sys.executable, "-W", "ignore", script, *logs, "--nproc_per_node", "2",
			"--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--rdzv_id", self.directory,
		]  # fmt: skip

	def test_rondo_run(self):
		self.assertEqual(self.run_program(["rondo-run", "--nproc-per-node", "2", sys.executable], SUM).count("sum 3.0"), 2)

	def test_torchrun_and_the_page(self):
		with open(PAGE) as file:
			program, command = re.findall(r"^```\n(.*?)^```", file.read(), re.DOTALL | re.MULTILINE)[:2]
		self.assertEqual(command, "torchrun --nproc_per_node 2 three.py\n")
		self.assertEqual(len(program.splitlines()), 3)
		shown = self.run_program(self.torchrun(), program)
		self.assertEqual(shown.count("tensor([2., 2., 2.])"), 2, shown)

	def test_torchrun_restarts_the_ranks(self):
		shown = self.run_program([*self.torchrun(), "--max_restarts", "1", "--monitor_interval", "0.1"], ELASTIC)
		self.assertEqual(shown.count("weight 6.0 from step 3 after 1 restart"), 2, shown)

	def test_the_source_package_takes_this_torch(self):
		"""Else pip would install another one."""
		try:
			from pkg_resources import Requirement
		except ImportError:
			self.skipTest("no setuptools")
		source = os.path.join(os.path.dirname(PAGE), "..", "adapters", "torch")
		command = [sys.executable, "-W", "ignore", "setup.py", "-q", "egg_info", "--egg-base", self.directory]
		subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
		with open(os.path.join(self.directory, "rondo_torch.egg-info", "requires.txt")) as file:
			requirement = Requirement.parse(file.read().strip())
		self.assertTrue(requirement.specifier.contains(torch.__version__, prereleases=True), str(requirement))

	def test_spawn(self):
		with self.assertRaisesRegex(Exception, "of rank 1|rank 1 .* left"):
			torch.multiprocessing.spawn(spawned, (os.path.join(self.directory, "store"),), 2)


if __name__ == "__main__":
	unittest.main()
