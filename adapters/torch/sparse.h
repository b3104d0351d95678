#ifndef RONDO_TORCH_SPARSE_H
#define RONDO_TORCH_SPARSE_H

/* Sums of sparse tensors. */

#include <numeric>

#include "collectives.h"

namespace rondo_torch
{

/* The tensors of all ranks, each like the first argument, of indices and values that follow each
   other. */
inline Tensors split_entries(const at::Tensor &like, const at::Tensor &indices,
	const at::Tensor &values, const std::vector<int64_t> &counts)
{
	const int64_t dims = like.sparse_dim();
	Tensors all;
	int64_t first = 0;

	for (int64_t count : counts) {
		all.push_back(at::_sparse_coo_tensor_unsafe(
			indices.narrow(0, first * dims, count * dims).view({ dims, count }),
			values.narrow(0, first, count), like.sizes(), like.options()));
		first += count;
	}
	return all;
}

/* The entries of all ranks: how many there are, then indices and values. One call in the group's
   order: others start before the first part, or after the second. */
inline Tensors Group::gather_sparse(const at::Tensor &tensor, Milliseconds timeout)
{
	at::Tensor mine = tensor.coalesce();
	at::Tensor indices = mine.indices().contiguous(), values = mine.values().contiguous();
	const int64_t dims = indices.size(0), count = values.size(0);
	std::vector<int64_t> counts(getSize()), sizes = values.sizes().vec();

	std::unique_lock<std::recursive_mutex> order(order_);
	start_untitled(timeout, [&] {
		rondo_all_gather(comm_, &count, counts.data(), 1, RONDO_I64, nullptr);
	})->wait();

	sizes[0] = std::accumulate(counts.begin(), counts.end(), int64_t(0));
	at::Tensor all_indices = at::empty({ sizes[0] * dims }, indices.options());
	at::Tensor all_values = at::empty(sizes, values.options());
	const Type type = moved_type(values);
	const size_t row = c10::multiply_integers(values.sizes().slice(1)) * type.width;
	std::vector<size_t> index_counts, value_counts;
	for (int64_t each : counts) {
		index_counts.push_back(each * dims);
		value_counts.push_back(each * row);
	}
	WorkPointer moves = start_untitled(timeout, [&] {
		rondo_all_gather_v(comm_, indices.data_ptr(), all_indices.data_ptr(),
			index_counts.data(), nullptr, RONDO_I64, nullptr);
		rondo_all_gather_v(comm_, values.data_ptr(), all_values.data_ptr(),
			value_counts.data(), nullptr, type.rondo, nullptr);
	});
	order.unlock();
	moves->wait();

	return split_entries(tensor, all_indices, all_values, counts);
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
	Tensors all = gather_sparse(tensors[0], options.timeout);
	at::Tensor sum = std::accumulate(all.begin() + 1, all.end(), all[0],
		[](const at::Tensor &a, const at::Tensor &b) { return a + b; });
	tensors[0].copy_(sum.coalesce());
	made->give(tensors);
	made->end();
	return made;
}

} // namespace rondo_torch

#endif
