#!/usr/bin/env python3
"""
figures.py [--rounds N] RONDO_BENCH: what a call costs in Python, as a table in Markdown. An all-reduce of 4 bytes on two
ranks, in turns with that of the program rondo-bench, and Ctrl-C in a barrier that the other rank never joins, from the
signal to KeyboardInterrupt. Medians, and the slowest tenth. PYTHONPATH has rondo; RONDO_LIBRARY may name its library.
"""

import argparse
import array
import json
import os
import signal
import statistics
import subprocess
import threading
import time

import rondo

CALLS = 5000
INTERRUPTS = 5


def fork_ranks(function):
	"""function(comm)'s value on rank 0 of two, which are processes."""
	unique_id, (read, write) = rondo.unique_id(), os.pipe()
	children = []
	for rank in range(2):
		children.append(os.fork())
		if children[rank] == 0:
			signal.alarm(60)
			with rondo.Comm(rank, 2, unique_id=unique_id) as comm:
				value = function(comm)
				if rank == 0:
					os.write(write, json.dumps(value).encode())
			os._exit(0)
	os.close(write)
	for child in children:
		status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
		if status:
			raise SystemExit(f"figures.py: a rank ended with status {status}")
	with os.fdopen(read) as pipe:
		return json.loads(pipe.read())


def in_c(bench):
	command = [bench, "all_reduce", "--ranks", "2", "-b", "4", "-e", "4", "-c", "0", "-n", str(CALLS), "-J", "/dev/stderr"]
	done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, timeout=60)
	return json.loads(done.stderr)["results"][0]["in_place"]["time"]


def in_python(comm):
	"""Microseconds of a prepared call, and of a plain one."""
	buffer = array.array("f", [0])
	times = []
	for call in (comm.all_reduce_init(buffer), lambda: comm.all_reduce(buffer)):
		for _ in range(2): # the first warms up
			comm.barrier()
			begin = time.perf_counter()
			for _ in range(CALLS):
				call()
		times.append((time.perf_counter() - begin) / CALLS * 1e6)
	return times


def interrupted(comm):
	"""Microseconds from SIGINT to KeyboardInterrupt in rank 0, which waits."""
	if comm.rank == 1:
		while comm.error() is None:
			time.sleep(0.001)
		return None
	sent = []

	def send():
		time.sleep(0.05)
		sent.append(time.perf_counter())
		os.kill(os.getpid(), signal.SIGINT)

	threading.Thread(target=send).start()
	try:
		comm.barrier()
	except KeyboardInterrupt:
		return (time.perf_counter() - sent[0]) * 1e6


def row(name, samples, bound):
	slow = sorted(samples)[int(len(samples) * 0.9)]
	print(f"| {name} | {statistics.median(samples):,.2f} | {slow:,.2f} | {bound} |", flush=True)


def main():
	parser = argparse.ArgumentParser(usage=__doc__)
	parser.add_argument("--rounds", type=int, default=15)
	parser.add_argument("bench")
	options = parser.parse_args()
	signal.signal(signal.SIGINT, signal.default_int_handler) # which a shell's background job ignores
	rounds = [(in_c(options.bench), *fork_ranks(in_python)) for _ in range(options.rounds)]
	c, prepared, plain = zip(*rounds)
	print("| µs | median | p90 | bound |\n|:---|---:|---:|:---|")
	row("4 bytes in C", c, "")
	row("4 bytes, prepared: more than C", [one - other for one, other in zip(prepared, c)], "3 at most")
	row("4 bytes: more than C", [one - other for one, other in zip(plain, c)], "8 at most")
	interrupts = [fork_ranks(interrupted) for _ in range(INTERRUPTS * options.rounds)]
	row("Ctrl-C in a call", interrupts, "10,000 at most")


if __name__ == "__main__":
	main()
