"""RONDO_TRACE: a file of the steps that ran, with their times."""

import array
import collections
import contextlib
import json
import os
import pathlib
import resource
import subprocess
import tempfile
import unittest

import ranks
import rondo
from forked import fork
from test_comms import raises

STEPS_KEPT = 65536
ROUNDING_US = 0.01


def events(path):
	"""The file is an array whose end is left out."""
	return json.loads(path.read_text().rstrip(",\n") + "]")


def steps(path):
	"""By process and channel, in the order of their lines."""
	found = collections.defaultdict(list)
	for event in events(path):
		if event["ph"] == "X":
			found[event["pid"], event["tid"]].append(event)
	return found


def labels(path, name):
	return {event["pid"]: list(event["args"].values())[0] for event in events(path) if event["name"] == name}


def differences(path):
	"""The calls of the trace, with the text of the first step that is not the plan's, if there is one."""
	command = ["rondo-plan", "diff", str(path), "--json"]
	document = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
	return [
		(call["collective"], call["algorithm"], call.get("other_step", ""), len(call["steps"]))
		for call in document["calls"]
	]


def planned(algorithm, size):
	"""By rank: what a step of the trace has, too."""
	command = ["rondo-plan", "print", algorithm, "all_reduce", "--ranks", str(size), "--json"]
	document = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
	return [
		[(step["kind"], step.get("peer", -1), step.get("to", -1)) for step in plan["steps"]]
		for plan in document["plans"]
	]


class Trace(unittest.TestCase):
	def setUp(self):
		folder = tempfile.TemporaryDirectory()
		self.addCleanup(folder.cleanup)
		self.folder = pathlib.Path(folder.name)
		self.path = self.folder / "trace.json"

	@contextlib.contextmanager
	def environment(self, **variables):
		os.environ.update(variables)
		try:
			yield
		finally:
			for name in variables:
				del os.environ[name]

	def run_traced(self, size, function, **settings):
		with self.environment(RONDO_TRACE=str(self.path)):
			return ranks.run(size, function, **settings)

	def check_times(self, line):
		for event, following in zip(line, line[1:] + [None]):
			args = event["args"]
			self.assertGreaterEqual(min(args["wait_us"], args["work_us"]), 0)
			self.assertAlmostEqual(args["wait_us"] + args["work_us"], event["dur"], delta=ROUNDING_US)
			if following:
				self.assertGreaterEqual(following["ts"], event["ts"] + event["dur"] - ROUNDING_US)

	def check_messages(self, lines):
		"""No message has come before its sender began to send it: the ranks' clocks agree."""
		sent, taken = collections.defaultdict(list), collections.defaultdict(list)
		for (rank, channel), line in lines.items():
			for event in line:
				args, end = event["args"], event["ts"] + event["dur"]
				if args["to"] >= 0 and event["name"] != "flush":
					sent[rank, args["to"], channel].append(end - args["work_us"])
				if args["peer"] >= 0:
					taken[args["peer"], rank, channel].append(end)
		self.assertEqual(sent.keys(), taken.keys())
		for link, begins in sent.items():
			self.assertEqual(len(begins), len(taken[link]))
			for begin, end in zip(begins, taken[link]):
				self.assertGreaterEqual(end, begin - ROUNDING_US)

	def check_steps(self, line, plan):
		"""Each call ran the plan, piece after piece. Returns the bytes that were sent."""
		pieces = collections.defaultdict(list)
		sent = 0
		for event in line:
			args = event["args"]
			if event["cat"] == "all_reduce":
				self.assertEqual(args["algorithm"], "ring")
				self.assertEqual(args["step"], len(pieces[args["call"], args["piece"]]))
				pieces[args["call"], args["piece"]].append((event["name"], args["peer"], args["to"]))
				sent += args["bytes"] if args["to"] >= 0 else 0
		for piece in pieces.values():
			self.assertEqual(piece, plan)
		return sent

	def test_has_the_steps_of_the_plans_with_their_times(self):
		size, calls, count = 3, 4, 100000
		plans = planned("ring", size)

		def run(comm):
			values = array.array("f", [1.0] * count)
			for _ in range(calls):
				comm.all_reduce(values)

		for transport in "shm", "tcp":
			with self.subTest(transport=transport):
				self.run_traced(size, run, transport=transport, algo="ring", channels=2)
				lines = steps(self.path)
				for line in lines.values():
					self.check_times(line)
				self.check_messages(lines)
				sent = sum(self.check_steps(line, plans[rank]) for (rank, _), line in lines.items())
				self.assertEqual(sent, calls * 2 * (size - 1) * 4 * count)
				self.path.unlink()

	def test_has_the_plans_that_rondo_plan_writes(self):
		def run(comm):
			for count in 1, 1000, 200000:
				values, all_values = array.array("f", [1.0] * count), array.array("f", [1.0] * count * comm.size)
				comm.all_reduce(values)
				comm.reduce(values, root=1)
				comm.broadcast(values, root=2)
				comm.all_gather(values, all_values)
				comm.reduce_scatter(all_values, values)
				comm.gather(values, all_values if comm.rank == 1 else None, root=1)
				comm.scatter(all_values if comm.rank == 2 else None, values, root=2)
				comm.all_to_all(all_values, array.array("f", all_values))
				if comm.rank == 2:
					comm.send(values, 1)
				elif comm.rank == 1:
					comm.recv(values, 2)
				comm.all_gather_v(values[: count * comm.rank // 2], all_values, [0, count // 2, count])
				comm.barrier()

		for settings in (
			{"transport": "shm"},
			{"transport": "shm", "algo": "ring"},
			{"transport": "shm", "algo": "tree"},
			{"transport": "tcp", "channels": 2},
		):
			with self.subTest(**settings):
				self.run_traced(3, run, **settings)
				found = differences(self.path)
				command = ["rondo-plan", "replay", str(self.path), "--json"]
				again = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
				self.path.unlink()
				self.assertEqual([call for call in found if call[2]], [])
				self.assertEqual(len({collective for collective, *_ in found}), 10)
				self.assertEqual(again["left_out"], 0)
				self.assertGreaterEqual(again["calls"], len(found))
				self.assertEqual(sum(row["calls"] for row in again["collectives"]), again["calls"])

	def test_has_the_layout_of_hosts(self):
		def run(rank, unique_id, hosts):
			with rondo.Comm(
				rank, len(hosts), unique_id=unique_id, host=f"host{hosts[rank]}", algo="hierarchical"
			) as comm:
				comm.all_reduce(array.array("f", [1.0] * 100000))
				comm.broadcast(array.array("f", [1.0]), root=1)

		for hosts in (0, 1, 0, 1), (2, 1, 0, 1, 2):
			unique_id = rondo.unique_id()
			with self.subTest(hosts=hosts), self.environment(RONDO_TRACE=str(self.path)):
				for child in [fork(run, rank, unique_id, hosts) for rank in range(len(hosts))]:
					child.result()
				found = differences(self.path)
				self.path.unlink()
				self.assertEqual([call for call in found if call[2]], [])
				self.assertIn(("all_reduce", "hierarchical"), {call[:2] for call in found})

	def test_has_every_repeated_call(self):
		def run(comm):
			values = array.array("f", [1.0])
			for _ in range(100):
				comm.all_reduce(values)

		self.run_traced(2, run)
		for line in steps(self.path).values():
			numbers = [event["args"]["call"] for event in line if event["cat"] == "all_reduce"]
			first = min(numbers)
			self.assertEqual(sorted(set(numbers)), list(range(first, first + 100)))

	def test_keeps_the_latest_steps(self):
		def run(comm):
			values = array.array("f", [1.0])
			for _ in range(STEPS_KEPT // 2):
				comm.all_reduce(values)

		self.run_traced(2, run)
		self.assertEqual([len(line) for line in steps(self.path).values()], [STEPS_KEPT] * 2)
		for label in labels(self.path, "process_labels").values():
			self.assertRegex(label, "^[0-9]+ earlier steps dropped$")

	def test_sets_parts_apart(self):
		def run(comm):
			with comm.split(comm.rank % 2) as part:
				part.barrier()

		self.run_traced(4, run)
		names = labels(self.path, "process_name").values()
		self.assertEqual(len(set(pid for pid, _ in steps(self.path))), 8)
		self.assertEqual(len([name for name in names if " of 4 (host " in name]), 4)
		self.assertEqual(len(set(name for name in names if " of 2 in comm " in name)), 4)
		for event in events(self.path):
			if event["name"] == "process_name" and event["args"]["comm"] != "0":
				number = int(event["args"]["comm"], 16) % (1 << 29)
				self.assertEqual(event["pid"] - (1 << 30), number * 2 + event["args"]["rank"])

	def test_has_a_file_a_rank(self):
		with self.environment(RONDO_TRACE=str(self.folder / "%r.json")):
			ranks.run(2, lambda comm: comm.barrier())
		for rank in range(2):
			self.assertEqual({pid for pid, _ in steps(self.folder / f"{rank}.json")}, {rank})

	def test_refuses_a_file_that_cannot_be_written(self):
		pipe = self.folder / "pipe"
		os.mkfifo(pipe)
		held = os.open(pipe, os.O_RDWR)
		self.addCleanup(os.close, held)
		for path, why in (
			(self.folder, "Is a directory"),
			(self.folder / "none" / "trace", "No such file or directory"),
			(pipe, "is no regular file"),
		):
			with self.environment(RONDO_TRACE=str(path)):
				error = raises(rondo.SettingError, rondo.Comm, 0, 1)
			self.assertIn("RONDO_TRACE: ", str(error))
			self.assertIn(f"{path}", str(error))
			self.assertIn(why, str(error))

	def test_a_full_disk_costs_the_trace_alone(self):
		log = self.folder / "log"

		def run(comm):
			comm.barrier()
			resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
			return comm.all_reduce(array.array("i", [1]))[0]

		with self.environment(RONDO_DEBUG_FILE=str(log), RONDO_DEBUG="WARN"):
			self.assertEqual(self.run_traced(2, run), [2, 2])
		lines = [line for line in log.read_text().splitlines() if "RONDO_TRACE" in line]
		self.assertTrue(lines)
		self.assertIn(f"RONDO_TRACE: cannot write {self.path}: File too large: the trace ends here", lines[0])

	def test_a_forked_child_writes_nothing(self):
		def run(comm):
			def child():
				comm.destroy()
				return self.path.stat().st_size

			size = ranks.fork(child).result()
			comm.barrier()
			return size

		self.assertEqual(self.run_traced(2, run), [2, 2])


if __name__ == "__main__":
	unittest.main()
