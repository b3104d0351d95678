"""Each collective on 2 to 4 ranks, against references computed by Python."""

import array
import unittest

import ranks
import rondo

# Python's codes for arrays of Rondo's types.
TYPES = "bBhHiIqQfd"
COMBINE = {
	"sum": lambda a, b: a + b,
	"prod": lambda a, b: a * b,
	"min": min,
	"max": max,
	"band": lambda a, b: a & b,
	"bor": lambda a, b: a | b,
	"bxor": lambda a, b: a ^ b,
	"land": lambda a, b: int(bool(a) and bool(b)),
	"lor": lambda a, b: int(bool(a) or bool(b)),
	"lxor": lambda a, b: int(bool(a) != bool(b)),
}


def value(rank, i):
	"""Small, so that sums and products of four are exact in all types."""
	return (rank * 2 + i) % 3 + (i == 1)


def values(code, rank, count):
	return array.array(code, [value(rank, i) for i in range(count)])


def zeros(code, count):
	return array.array(code, [0] * count)


def combined(op, size, i):
	result = value(0, i)
	for rank in range(1, size):
		result = COMBINE[op](result, value(rank, i))
	return result


def equal(found, expected):
	found = list(found)
	assert found == list(expected), f"{found}, not {list(expected)}"


def reductions(comm):
	for code in TYPES:
		for op in COMBINE:
			if code in "fd" and op[0] in "bl" and op != "max":
				continue
			expected = [combined(op, comm.size, i) for i in range(5)]
			result = comm.all_reduce(values(code, comm.rank, 5), zeros(code, 5), op=op)
			equal(result, expected)
			in_place = values(code, comm.rank, 5)
			assert comm.all_reduce(in_place, op=op) is in_place
			equal(in_place, expected)
			root = comm.size - 1
			result = comm.reduce(values(code, comm.rank, 5), zeros(code, 5), op=op, root=root)
			if comm.rank == root:
				equal(result, expected)
			else:
				assert result is None


def scattered_reductions(comm):
	n = comm.size
	for code in TYPES:
		mine = [combined("sum", n, comm.rank * 2 + i) for i in range(2)]
		send = values(code, comm.rank, 2 * n)
		equal(comm.reduce_scatter(send, zeros(code, 2)), mine)
		counts = [k + 1 for k in range(n)]
		start = sum(counts[: comm.rank])
		send = values(code, comm.rank, sum(counts))
		recv = zeros(code, counts[comm.rank])
		mine = [combined("sum", n, start + i) for i in range(counts[comm.rank])]
		equal(comm.reduce_scatter_v(send, recv, counts), mine)


def moves(comm):
	n, rank = comm.size, comm.rank
	for code in TYPES:
		root = 1
		buffer = values(code, root, 3) if rank == root else zeros(code, 3)
		equal(comm.broadcast(buffer, root), values(code, root, 3))
		every = [v for k in range(n) for v in values(code, k, 2)]
		equal(comm.all_gather(values(code, rank, 2), zeros(code, 2 * n)), every)
		gathered = comm.gather(values(code, rank, 2), zeros(code, 2 * n), root=root)
		if rank == root:
			equal(gathered, every)
		whole = values(code, root, 2 * n) if rank == root else None
		mine = values(code, root, 2 * n)[2 * rank : 2 * rank + 2]
		equal(comm.scatter(whole, zeros(code, 2), root), mine)
		send = array.array(code, [rank * n + k for k in range(n)])
		swapped = [k * n + rank for k in range(n)]
		equal(comm.all_to_all(send, zeros(code, n)), swapped)
		equal(comm.all_to_all(send), swapped)
		comm.barrier()


def moves_of_lengths(comm):
	n, rank = comm.size, comm.rank
	counts = [k + 1 for k in range(n)]
	every = [v for k in range(n) for v in values("i", k, k + 1)]
	mine = values("i", rank, rank + 1)
	equal(comm.all_gather_v(mine, zeros("i", len(every)), counts), every)
	# With a gap of one element before each block.
	displs = [sum(counts[:k]) + k + 1 for k in range(n)]
	spread = comm.all_gather_v(mine, zeros("i", len(every) + n), counts, displs)
	equal([spread[d + i] for d, c in zip(displs, counts) for i in range(c)], every)
	root = n - 1
	if rank == root:
		equal(comm.gather_v(mine, zeros("i", len(every)), counts, root=root), every)
		back = comm.scatter_v(array.array("i", every), zeros("i", rank + 1), counts, root=root)
	else:
		assert comm.gather_v(mine, root=root) is None
		back = comm.scatter_v(None, zeros("i", rank + 1), root=root)
	equal(back, mine)
	# Rank r sends k + 1 elements to rank k.
	send = array.array("i", [100 * rank + k for k in range(n) for _ in range(k + 1)])
	recv = zeros("i", n * (rank + 1))
	comm.all_to_all_v(send, counts, recv, [rank + 1] * n)
	equal(recv, [100 * k + rank for k in range(n) for _ in range(rank + 1)])


def lists(comm):
	n, rank = comm.size, comm.rank
	root = n - 1
	every = [values("h", k, k + 1) for k in range(n)]
	mine = values("h", rank, rank + 1)
	recv = [zeros("h", k + 1) for k in range(n)]
	assert comm.all_gather_list(mine, recv) is recv and recv == every
	recv = [zeros("h", k + 1) for k in range(n)] if rank == root else None
	found = comm.gather_list(mine, recv, root)
	assert found is recv and (rank != root or recv == every)
	back = comm.scatter_list(every if rank == root else None, zeros("h", rank + 1), root)
	equal(back, mine)
	equal(comm.reduce_scatter_list(every, zeros("h", rank + 1)), [n * v for v in mine])
	send = [array.array("h", [100 * rank + k] * (k + 1)) for k in range(n)]
	call = comm.all_to_all_list_init(send, [zeros("h", rank + 1) for k in range(n)])
	del send # the call keeps its arrays
	for k, block in enumerate(call()):
		equal(block, [100 * k + rank] * (rank + 1))
	for wrong in (lambda: comm.all_gather_list(mine, []), lambda: comm.all_gather_list(b"12345678", every)):
		try:
			wrong()
		except rondo.InvalidError:
			continue
		raise AssertionError("was not refused")


def transfers(comm):
	right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
	theirs = zeros("d", 2)
	with rondo.group():
		comm.send(array.array("d", [comm.rank, 7]), right) # nobody else keeps this array
		comm.recv(theirs, left)
	equal(theirs, [left, 7])
	if comm.rank == 0:
		comm.send(b"one way", 1)
	elif comm.rank == 1:
		data = bytearray(7)
		comm.recv(data, 0)
		equal(data, b"one way")


def texts(comm):
	mine = b"x" * comm.rank
	every = [b"x" * k for k in range(comm.size)]
	assert comm.all_gather_bytes(mine) == every
	assert comm.gather_bytes(mine, root=1) == (every if comm.rank == 1 else None)


def averages_and_factors(comm):
	found = comm.all_reduce(array.array("d", [comm.rank]), op="avg")
	equal(found, [(comm.size - 1) / 2])
	op = comm.premul(comm.rank + 1, "f32")
	equal(comm.all_reduce(array.array("f", [1]), op=op), [comm.size * (comm.size + 1) / 2])


def own_operations(comm):
	def joined(into, a, b):
		for i in range(len(into)):
			into[i] = a[i] * 10 + b[i]

	in_order = int("".join(str(rank + 1) for rank in range(comm.size)))
	op = comm.create_op(joined)
	for kind in "bhiqd":
		if kind != "b" or comm.size < 3:
			equal(comm.all_reduce(array.array(kind, [comm.rank + 1] * 7), op=op), [in_order] * 7)
	call = comm.all_reduce_init(array.array("d", [comm.rank + 1]), op=op)
	call.start().wait()

	def views(into, a, b):
		assert len(into) == len(a) == len(b) and into.format == "f" and not into.readonly
		into[:] = b

	equal(comm.all_reduce(array.array("f", [comm.rank]), op=comm.create_op(views)), [comm.size - 1])


def prepared(comm):
	buffer = array.array("i", [0])
	call = comm.all_reduce_init(buffer)
	for step in range(100):
		buffer[0] = step + comm.rank
		assert call() is buffer
		equal(buffer, [comm.size * step + sum(range(comm.size))])
	with rondo.group():
		buffer[0] = 1
		call()
	equal(buffer, [comm.size])


class Collectives(unittest.TestCase):
	"""Loops over types and operations in one job each: to start a rank takes longer than a call."""


def add_test(function, size):
	def test(self):
		ranks.run(size, function)

	setattr(Collectives, f"test_{function.__name__}_on_{size}_ranks", test)


for function in (
	reductions,
	scattered_reductions,
	moves,
	moves_of_lengths,
	lists,
	transfers,
	texts,
	averages_and_factors,
	own_operations,
	prepared,
):
	for size in (2, 3, 4):
		add_test(function, size)

if __name__ == "__main__":
	unittest.main()
