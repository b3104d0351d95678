#ifndef RONDO_TORCH_SPARSE_H
#define RONDO_TORCH_SPARSE_H

/* Sums of sparse tensors. */

#include <numeric>

#include "collectives.h"

namespace rondo_torch
{

/* The tensors of all ranks, each like the first argument, of indices and values that follow each
   other. */
inline Tensors split_entries(
	const at::Tensor &like, const Entries &entries, const std::vector<int64_t> &counts)
{
	const int64_t dims = like.sparse_dim();
	Tensors all;
	int64_t first = 0;

	for (int64_t count : counts) {
		all.push_back(at::_sparse_coo_tensor_unsafe(
			entries.indices.narrow(0, first * dims, count * dims).view({ dims, count }),
			entries.values.narrow(0, first, count), like.sizes(), like.options()));
		first += count;
	}
	return all;
}

/* Takes the entries of all ranks, which are known to be `counts`. */
inline WorkPointer Group::start_entries(
	const Entries &mine, const std::vector<int64_t> &counts, Milliseconds timeout, Entries &all)
{
	const int64_t dims = mine.indices.size(0);
	std::vector<int64_t> sizes = mine.values.sizes().vec();

	sizes[0] = std::accumulate(counts.begin(), counts.end(), int64_t(0));
	all.indices = at::empty({ sizes[0] * dims }, mine.indices.options());
	all.values = at::empty(sizes, mine.values.options());
	const Type type = moved_type(mine.values);
	const size_t row = c10::multiply_integers(mine.values.sizes().slice(1)) * type.width;
	std::vector<size_t> index_counts, value_counts;
	for (int64_t each : counts) {
		index_counts.push_back(each * dims);
		value_counts.push_back(each * row);
	}
	return start_untitled(timeout, [&] {
		rondo_all_gather_v(comm_, mine.indices.data_ptr(), all.indices.data_ptr(),
			index_counts.data(), nullptr, RONDO_I64, nullptr);
		rondo_all_gather_v(comm_, mine.values.data_ptr(), all.values.data_ptr(),
			value_counts.data(), nullptr, type.rondo, nullptr);
	});
}

/* How many entries each rank has, then their indices and values. One call in the group's order:
   others start before the first part, or after the second. Where this rank fails, such as for lack
   of memory, the others, which wait for its part, get the reason. */
inline Tensors Group::gather_sparse(const at::Tensor &tensor, Milliseconds timeout)
try {
	at::Tensor merged = tensor.coalesce();
	Entries mine{ merged.indices().contiguous(), merged.values().contiguous() }, all;
	const int64_t count = mine.values.size(0);
	std::vector<int64_t> counts(getSize());

	std::unique_lock<std::recursive_mutex> order(order_);
	start_untitled(timeout, [&] {
		rondo_all_gather(comm_, &count, counts.data(), 1, RONDO_I64, nullptr);
	})->wait();
	WorkPointer moves = start_entries(mine, counts, timeout, all);
	order.unlock();
	moves->wait();

	return split_entries(tensor, all, counts);
} catch (const std::exception &failure) {
	const std::string text = failure.what();
	Use use(*life_);

	/* Further lines of torch's are a backtrace. */
	if (use)
		rondo_comm_revoke(life_->comm(), text.substr(0, text.find('\n')).c_str());
	throw;
}

/* Runs now. Every rank adds in the order of ranks: all have the same bits. */
inline WorkPointer Group::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options)
{
	Checks checks("allreduce");

	if (options.reduceOp.op_ != c10d::ReduceOp::SUM)
		checks.refuse("unsupported reduction operation, only SUM is for sparse tensors");
	if (callbacks_here)
		checks.refuse("a sum of sparse tensors waits, which a callback must not");

	auto made = work(c10d::OpType::ALLREDUCE, "rondo:sparse_all_reduce", tensors);
	Tensors all = gather_sparse(combine(checks, tensors, c10d::ReduceOp::SUM), options.timeout);
	at::Tensor sum = std::accumulate(all.begin() + 1, all.end(), all[0],
		[](const at::Tensor &a, const at::Tensor &b) { return a + b; });
	for (at::Tensor &tensor : tensors)
		tensor.copy_(sum.coalesce());
	made->give(tensors);
	made->end();
	return made;
}

} // namespace rondo_torch

#endif
