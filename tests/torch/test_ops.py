"""Each collective, with each type, operation and layout, against results computed here."""

import itertools
import unittest

import ranks
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

SIZES = (2, 3)
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
ALL = [*FLOATS, *INTEGERS, *COMPLEX, torch.bool]


def values(rank, dtype, shape=(2, 3)):
	"""Small whole numbers, exact in every type, others on each rank."""
	count = int(torch.tensor(shape).prod()) if shape else 1
	numbers = (torch.arange(count) * 3 + rank * 2) % 5 + 1
	if dtype == torch.bool:
		numbers = (numbers + rank) % 2
	tensor = numbers.reshape(shape).to(dtype)
	return tensor * (1 + 2j) if dtype.is_complex else tensor


def strided(tensor):
	"""The same values, whose elements do not follow each other."""
	wide = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] * 2, dtype=tensor.dtype)
	view = wide[..., ::2]
	view.copy_(tensor)
	assert not view.is_contiguous()
	return view


def transposed(tensor):
	view = tensor.t().contiguous().t()
	assert not view.is_contiguous()
	return view


LAYOUTS = [torch.clone, strided, transposed]


def expected(op, tensors):
	wide = [tensor.to(torch.float64) if tensor.is_floating_point() else tensor for tensor in tensors]
	result = wide[0]
	for other in wide[1:]:
		if op in ("SUM", "AVG"):
			result = result | other if result.dtype == torch.bool else result + other
		elif op == "PRODUCT":
			result = result & other if result.dtype == torch.bool else result * other
		else:
			result = {
				"MIN": torch.minimum, "MAX": torch.maximum, "BAND": torch.bitwise_and, "BOR": torch.bitwise_or,
				"BXOR": torch.bitwise_xor,
			}[op](result, other)  # fmt: skip
	if op == "AVG":
		exact = result.is_floating_point() or result.is_complex()
		result = result / len(tensors) if exact else torch.div(result, len(tensors), rounding_mode="trunc")
	return result.to(tensors[0].dtype)


def operations(dtype):
	yield "SUM"
	if dtype != torch.bool:
		yield "AVG"
	yield "PRODUCT"
	if not dtype.is_complex:
		yield from ("MIN", "MAX")
	if not dtype.is_complex and not dtype.is_floating_point:
		yield from ("BAND", "BOR", "BXOR")


def same(got, want, what):
	# The parts of an average of complex numbers are rounded by themselves.
	equal = torch.allclose if want.dtype.is_complex else torch.equal
	assert got.dtype == want.dtype and equal(got, want), f"{what}: got {got}, want {want}"


def refused(error, text, call, *arguments, **keywords):
	try:
		call(*arguments, **keywords)
	except error as reason:
		assert text in str(reason), f"{reason} instead of {text}"
		return
	raise AssertionError(f"{call} was not refused")


def reductions(rank, size):
	for dtype in ALL:
		for name, layout in itertools.product(operations(dtype), LAYOUTS):
			op, what = getattr(ReduceOp, name), f"{dtype} {name} {layout.__name__}"
			inputs = [values(r, dtype) for r in range(size)]
			want = expected(name, inputs)
			if not dtype.is_complex or name == "SUM":
				tensor = layout(inputs[rank])
				dist.all_reduce(tensor, op)
				same(tensor, want, f"all_reduce {what}")
				tensor = layout(inputs[rank])
				dist.reduce(tensor, size - 1, op)
				same(tensor, want if rank == size - 1 else inputs[rank], f"reduce {what}")
			blocks = [[values(r + 2 * k, dtype) for k in range(size)] for r in range(size)]
			want = expected(name, [blocks[r][rank] for r in range(size)])
			output = layout(torch.zeros_like(want))
			dist.reduce_scatter(output, [layout(block) for block in blocks[rank]], op)
			same(output, want, f"reduce_scatter {what}")
			output = layout(torch.zeros_like(want))
			dist.reduce_scatter_tensor(output, torch.cat(blocks[rank]), op)
			same(output, want, f"reduce_scatter_tensor {what}")


def movements(rank, size):
	for dtype, layout in itertools.product(ALL, LAYOUTS):
		what = f"{dtype} {layout.__name__}"
		inputs = [values(r, dtype) for r in range(size)]

		def zeros():
			return layout(torch.zeros_like(inputs[0]))

		for root in range(size):
			tensor = layout(inputs[rank])
			dist.broadcast(tensor, root)
			same(tensor, inputs[root], f"broadcast {what}")
			output = zeros()
			dist.scatter(output, [layout(t) for t in inputs] if rank == root else None, root)
			same(output, inputs[rank], f"scatter {what}")
			outputs = [zeros() for _ in range(size)] if rank == root else None
			dist.gather(layout(inputs[rank]), outputs, root)
			for got, want in zip(outputs or [], inputs):
				same(got, want, f"gather {what}")
		outputs = [zeros() for _ in range(size)]
		dist.all_gather(outputs, layout(inputs[rank]))
		for got, want in zip(outputs, inputs):
			same(got, want, f"all_gather {what}")
		output = torch.zeros(2 * size, 3, dtype=dtype)
		dist.all_gather_into_tensor(output, layout(inputs[rank]))
		same(output, torch.cat(inputs), f"all_gather_into_tensor {what}")
		outputs = [zeros() for _ in range(size)]
		dist.all_to_all(outputs, [layout(values(10 * rank + k, dtype)) for k in range(size)])
		for r, got in enumerate(outputs):
			same(got, values(10 * r + rank, dtype), f"all_to_all {what}")


def splits(rank, size):
	"""Rank r sends r + k rows to rank k."""
	rows = [rank + k for k in range(size)]
	send = torch.cat([torch.full((rank + k, 2), 10 * rank + k) for k in range(size)])
	recv = torch.zeros(sum(rows), 2, dtype=send.dtype)
	dist.all_to_all_single(recv, send, rows, rows)
	same(recv, torch.cat([torch.full((rank + k, 2), 10 * k + rank) for k in range(size)]), "splits")
	send = torch.arange(size) + 10 * rank
	recv = torch.zeros(size, dtype=send.dtype)
	# One rank gives the sizes that are the others' default.
	dist.all_to_all_single(recv, send, [1] * size if rank == 0 else None)
	same(recv, torch.arange(size) * 10 + rank, "equal parts")


def coalesced(rank, size):
	tensors = [torch.full((k + 1,), float(rank)) for k in range(3)]
	dist.all_reduce_coalesced(tensors)
	for k, tensor in enumerate(tensors):
		same(tensor, torch.full((k + 1,), float(sum(range(size)))), "all_reduce_coalesced")
	twice = torch.full((3,), float(rank))
	dist.all_reduce_coalesced([twice, twice])
	same(twice, torch.full((3,), float(sum(range(size)))), "all_reduce_coalesced of a tensor twice")
	inputs = [torch.full((k + 1,), float(10 * rank + k)) for k in range(2)]
	outputs = [[torch.zeros(k + 1) for k in range(2)] for _ in range(size)]
	dist.all_gather_coalesced(outputs, inputs)
	for r, k in itertools.product(range(size), range(2)):
		same(outputs[r][k], torch.full((k + 1,), float(10 * r + k)), "all_gather_coalesced")


def sparse(rank, size):
	for values_of in (lambda: torch.tensor([1.0, 2.0]), lambda: torch.tensor([[1.0, 2.0], [3.0, 4.0]])):
		dense = 0
		for r in range(size):
			entries = values_of()
			shape = (size + 1, *entries.shape[1:])
			tensor = torch.sparse_coo_tensor(torch.tensor([[r, size]]), entries * (r + 1), shape)
			dense = dense + tensor.to_dense()
			if r == rank:
				mine = tensor
		dist.all_reduce(mine)
		same(mine.to_dense(), dense, "sparse all_reduce")
	empty = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0), (3,))
	if rank == 0:
		empty = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([5.0]), (3,))
	dist.all_reduce(empty)
	same(empty.to_dense(), torch.tensor([0.0, 5.0, 0.0]), "sparse all_reduce without values")
	refused(RuntimeError, "only SUM", dist.all_reduce, empty, ReduceOp.MAX)


def premultiplied(rank, size):
	from torch._C._distributed_c10d import _make_nccl_premul_sum

	for dtype in (torch.float32, torch.float64, torch.float16, torch.int32):
		tensor = torch.full((3,), rank + 1).to(dtype)
		dist.all_reduce(tensor, _make_nccl_premul_sum(2.0))
		same(tensor, torch.full((3,), size * (size + 1)).to(dtype), "a factor")
	tensor = torch.ones(3)
	factor = torch.tensor([0.5])
	dist.all_reduce(tensor, _make_nccl_premul_sum([factor] if torch.__version__ < "2" else factor))
	same(tensor, torch.full((3,), size / 2), "a factor in a tensor")


def several(rank, size):
	"""Calls with several tensors a rank, which the programs of torch 1 make by ..._multigpu."""
	group = dist.distributed_c10d._get_default_group()
	inputs = [[values(10 * r + k, torch.int32) for k in range(3)] for r in range(size)]
	every = [tensor for each in inputs for tensor in each]
	options = dist.distributed_c10d.AllreduceOptions()
	for name, layout in itertools.product(operations(torch.int32), LAYOUTS):
		options.reduceOp = getattr(ReduceOp, name)
		tensors = [layout(tensor) for tensor in inputs[rank]]
		if name == "AVG":
			refused(RuntimeError, "AVG takes a single tensor of each rank", group.allreduce, tensors, options)
			continue
		work = group.allreduce(tensors, options)
		work.wait()
		for tensor in [*tensors, *work.result()]:
			same(tensor, expected(name, every), f"all_reduce {name}")
	options = dist.distributed_c10d.BroadcastOptions()
	for options.rootRank, options.rootTensor, layout in itertools.product(range(size), range(3), LAYOUTS):
		tensors = [layout(tensor) for tensor in inputs[rank]]
		group.broadcast(tensors, options).wait()
		for tensor in tensors:
			same(tensor, inputs[options.rootRank][options.rootTensor], "broadcast")
	for layout in LAYOUTS:
		outputs = [[layout(torch.zeros_like(tensor)) for tensor in every] for _ in range(3)]
		group.allgather(outputs, [layout(tensor) for tensor in inputs[rank]]).wait()
		for got, want in itertools.chain(*(zip(each, every) for each in outputs)):
			same(got, want, "all_gather")
	tensors = [tensor.to_sparse() for tensor in inputs[rank]]
	group.allreduce(tensors, dist.distributed_c10d.AllreduceOptions()).wait()
	for tensor in tensors:
		same(tensor.to_dense(), expected("SUM", every), "sparse all_reduce")
	options = dist.distributed_c10d.ReduceOptions()
	refused(RuntimeError, "requires a single-element tensor list, not one of 3", group.reduce, inputs[rank], options)


def lists(rank, size):
	"""A list of one tensor is that tensor. In torch 1 alone."""
	if torch.__version__ >= "2":
		return

	def full(value):
		return [torch.full((2,), float(value))]

	total = float(sum(range(size)))
	for name, tensors, more, want in (
		("all_reduce", full(rank), [], total),
		("broadcast", full(rank), [size - 1], size - 1),
		("reduce", full(rank), [0], total if rank == 0 else rank),
	):
		getattr(dist, name + "_multigpu")(tensors, *more)
		same(tensors[0], full(want)[0], name)
	gathered = [[torch.zeros(2) for _ in range(size)]]
	dist.all_gather_multigpu(gathered, full(rank))
	for r in range(size):
		same(gathered[0][r], full(r)[0], "all_gather")
	outputs = full(0)
	dist.reduce_scatter_multigpu(outputs, [[full(k)[0] for k in range(size)]])
	same(outputs[0], full(size * rank)[0], "reduce_scatter")


def odd_shapes(rank, size):
	for shape in ((), (0,), (0, 3), (1, 1, 1)):
		tensor = torch.full(shape, float(rank + 1))
		dist.all_reduce(tensor)
		same(tensor, torch.full(shape, size * (size + 1) / 2), f"all_reduce {shape}")
		outputs = [torch.zeros(shape) for _ in range(size)]
		dist.all_gather(outputs, torch.full(shape, float(rank)))
		for r in range(size):
			same(outputs[r], torch.full(shape, float(r)), f"all_gather {shape}")
	conjugate = torch.tensor([1 + 2j, 3 - 1j]).conj()
	dist.broadcast(conjugate, 0)
	same(conjugate.resolve_conj(), torch.tensor([1 - 2j, 3 + 1j]), "broadcast of a conjugate view")


reduce_options = dist.distributed_c10d.AllreduceOptions


def gather_to(root):
	options = dist.distributed_c10d.GatherOptions()
	options.rootRank = root
	return options


def scatter_from(root):
	options = dist.distributed_c10d.ScatterOptions()
	options.rootRank = root
	return options


def refusals(rank, size):
	x = torch.zeros(2)
	group = dist.distributed_c10d._get_default_group()
	refused(RuntimeError, "Cannot use ReduceOp.BAND", dist.all_reduce, x, ReduceOp.BAND)
	refused(RuntimeError, "ReduceOp.AVG with Bool", dist.all_reduce, x.bool(), ReduceOp.AVG)
	halves = torch.zeros(2 * size, dtype=torch.complex32)
	refused(RuntimeError, "ReduceOp.PRODUCT with ComplexHalf", dist.reduce_scatter_tensor, halves[:2], halves, ReduceOp.PRODUCT)
	refused(RuntimeError, "invalid root rank: 9", group.broadcast, x, 9)
	refused(RuntimeError, "", dist.broadcast, x.to_sparse(), 0)
	refused(RuntimeError, "invalid tensor size at index 1", dist.all_gather, [x] + [x[:1]] * (size - 1), x)
	refused(RuntimeError, "invalid tensor type at index 0", group.allgather, [[x.int()] * size], [x])
	refused(RuntimeError, "invalid output tensor list at index 0", dist.all_gather, [x], x)
	refused(RuntimeError, "Incorrect output list size 1. Output list size", group.gather, [[x]], [x], gather_to(rank))
	refused(RuntimeError, "a single-element output list containing", group.gather, [], [x], gather_to(rank))
	refused(RuntimeError, "a single-element output tensor list", group.scatter, [x, x], [], scatter_from(rank))
	refused(RuntimeError, "Incorrect input list size 1", group.scatter, [x], [[x]], scatter_from(rank))
	refused(RuntimeError, "invalid tensor layout at index 1", group.allreduce, [x, x.to_sparse()], reduce_options())
	refused(RuntimeError, "invalid tensor size at index 1", group.allreduce, [x, x[:1]], reduce_options())
	if torch.__version__ < "2":
		refused(RuntimeError, "requires non-empty tensor list", group.allreduce, [], reduce_options())
	wrong = [[x[:1]]] + [[x]] * (size - 1)
	refused(RuntimeError, "invalid size of output tensor at index 0", dist.all_gather_coalesced, wrong, [x])
	refused(RuntimeError, "non-root", group.gather, [x] * size, x, (rank + 1) % size)
	refused(RuntimeError, "dim 0 does not divide", dist.all_to_all_single, torch.zeros(7), torch.zeros(7))
	refused(RuntimeError, "Split sizes", dist.all_to_all_single, x, x, [5] * size, [5] * size)
	for k in range(size):
		mixed = [[x.double() if other == k else x for other in range(size)]]
		refused(RuntimeError, f"invalid tensor type at index {k}", group.reduce_scatter, [x], mixed)
	# None of these did any harm.
	dist.all_reduce(x)


class Ops(unittest.TestCase):
	def of(self, function):
		for size in SIZES:
			with self.subTest(size=size):
				ranks.run(size, function)

	def test_reductions(self):
		self.of(reductions)

	def test_movements(self):
		self.of(movements)

	def test_the_rest(self):
		for function in (splits, coalesced, sparse, premultiplied, several, lists, odd_shapes, refusals):
			with self.subTest(function.__name__):
				self.of(function)


if __name__ == "__main__":
	unittest.main()
