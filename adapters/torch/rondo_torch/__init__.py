"""The backend "rondo" of torch.distributed: import rondo_torch; dist.init_process_group("rondo")."""

import atexit
import contextlib
import functools

import torch
import torch.distributed
from torch.distributed import distributed_c10d

from . import _C
from ._C import ProcessGroupRondo, RondoError

__all__ = ["ProcessGroupRondo", "RondoError", "use_memory"]


@contextlib.contextmanager
def use_memory():
	"""
	with rondo_torch.use_memory(): model = DistributedDataParallel(network)

	Tensors of 64 KiB and more that this thread makes in the block lie in memory that the ranks of a host map, and
	so do the buckets of DDP's models that it makes there, as long as these live. Where the tensors of all ranks lie
	there, a collective reads and writes them in place. The ranks must make the same ones so to gain. DDP's buckets of
	a group of Rondo need no block, but for those that are the gradients (gradient_as_bucket_view).

	Make tensors there that live long: each has a descriptor, and ranks map it at its first call. Beyond a quarter of
	the process's descriptors, and where memory lacks, tensors are plain. A process forked later has its own copies
	of them, in which it may see what the parent writes later; its own new tensors are plain.
	"""
	before = _C.use_memory(True)
	try:
		yield
	finally:
		_C.use_memory(before)


def _rondo_group(group):
	"""The group of this backend in a process group of torch's, or None."""
	if isinstance(group, ProcessGroupRondo):
		return group
	try:
		backend = group._get_backend(torch.device("cpu"))
	except (AttributeError, RuntimeError):
		return None
	# TORCH_DISTRIBUTED_DEBUG=DETAIL wraps backends, in torch 2.
	backend = getattr(backend, "wrapped_pg", backend)
	return backend if isinstance(backend, ProcessGroupRondo) else None


def _create(options, _):
	"""Called by torch on each member of a new group, which of the default group's ranks has none."""
	ranks = options.global_ranks_in_group
	parent = None
	if ranks and torch.distributed.is_initialized():
		parent = _rondo_group(distributed_c10d._get_default_group())
	return _C.create(options.store, options.group_rank, options.group_size, options.timeout, parent, ranks)


def _register():
	devices = {} if torch.__version__.startswith("1.") else {"devices": ["cpu"]}
	distributed_c10d.Backend.register_backend("rondo", _create, extended_api=True, **devices)


def _own_monitored_barrier():
	"""torch's refuses all backends but gloo."""
	theirs = distributed_c10d.monitored_barrier

	@functools.wraps(theirs)
	def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
		own = _rondo_group(distributed_c10d._get_default_group() if group is None else group)
		if own is None:
			return theirs(group, timeout, wait_all_ranks)
		if timeout is None:
			timeout = distributed_c10d.default_pg_timeout
		return own.monitored_barrier(timeout, wait_all_ranks)

	torch.distributed.monitored_barrier = distributed_c10d.monitored_barrier = monitored_barrier


def _all_groups():
	"""torch's groups of this process."""
	world = getattr(distributed_c10d, "_world", distributed_c10d)
	return list(getattr(world, "pg_map" if hasattr(world, "pg_map") else "_pg_map"))


def _own_destroy_process_group():
	"""torch's only drops its references, and a group would end when all others, such as DDP's models, drop theirs."""
	theirs = distributed_c10d.destroy_process_group

	@functools.wraps(theirs)
	def destroy_process_group(group=None):
		is_default = group is None or group is distributed_c10d.GroupMember.WORLD
		ended = [_rondo_group(each) for each in (_all_groups() if is_default else [group])]
		theirs(group)
		_C.leave([own for own in ended if own is not None])

	torch.distributed.destroy_process_group = distributed_c10d.destroy_process_group = destroy_process_group


def _own_reducer():
	"""DDP's buckets are mapped, but for those that are its gradients, which a program may keep or hand on. DDP makes
	them anew after its first backward pass, outside of the block in which it was made."""
	theirs = torch.distributed.Reducer

	class Reducer(theirs):
		def __init__(self, params, bucket_indices, per_bucket_size_limits, process_group, *others, **named):
			are_gradients = named.get("gradient_as_bucket_view", len(others) > 3 and others[3])
			is_own = _rondo_group(process_group) is not None
			self._uses_memory = _C.uses_memory() or (is_own and not are_gradients)
			with self._memory():
				super().__init__(params, bucket_indices, per_bucket_size_limits, process_group, *others, **named)

		def _memory(self):
			return use_memory() if self._uses_memory else contextlib.nullcontext()

		def _rebuild_buckets(self):
			with self._memory():
				return super()._rebuild_buckets()

	torch.distributed.Reducer = Reducer


_register()
_own_monitored_barrier()
_own_destroy_process_group()
_own_reducer()
# Callbacks of calls under way may need the interpreter, which is whole now.
atexit.register(_C.leave_all)
