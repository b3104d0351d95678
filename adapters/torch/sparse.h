#ifndef RONDO_TORCH_SPARSE_H
#define RONDO_TORCH_SPARSE_H

/* Sums of sparse tensors. */

#include <cstdlib>
#include <memory>
#include <numeric>

#include "collectives.h"

namespace rondo_torch
{

/* The bytes of each rank, one after the other. */
struct Gathered {
	std::unique_ptr<void, decltype(&std::free)> bytes{ nullptr, std::free };
	std::vector<size_t> sizes;
};

inline Gathered gather_bytes(rondo_comm *comm, const at::Tensor &tensor)
{
	Gathered gathered;
	void *bytes;

	gathered.sizes.resize(rondo_comm_size(comm));
	check(rondo_all_gather_bytes(
		comm, tensor.data_ptr(), tensor.nbytes(), &bytes, gathered.sizes.data()));
	gathered.bytes.reset(bytes);
	return gathered;
}

/* The tensors of all ranks. They have any number of values, so indices and values are gathered. */
inline Tensors Group::gather_sparse(const at::Tensor &tensor)
{
	at::Tensor mine = tensor.coalesce();
	at::Tensor indices = mine.indices().contiguous(), values = mine.values().contiguous();
	Gathered all_indices = gather_bytes(comm_, indices);
	Gathered all_values = gather_bytes(comm_, values);
	char *next_indices = static_cast<char *>(all_indices.bytes.get());
	char *next_values = static_cast<char *>(all_values.bytes.get());
	Tensors all;

	for (int rank = 0; rank < getSize(); rank++) {
		int64_t entry = std::max<int64_t>(indices.size(0), 1) * sizeof(int64_t);
		int64_t count = all_indices.sizes[rank] / entry;
		std::vector<int64_t> sizes = values.sizes().vec();

		sizes[0] = count;
		all.push_back(at::_sparse_coo_tensor_unsafe(
			at::from_blob(next_indices, { indices.size(0), count }, indices.options())
				.clone(),
			at::from_blob(next_values, sizes, values.options()).clone(), tensor.sizes(),
			tensor.options()));
		next_indices += all_indices.sizes[rank];
		next_values += all_values.sizes[rank];
	}
	return all;
}

/* Runs now. Every rank adds in the order of ranks: all have the same bits. */
inline WorkPointer Group::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options)
{
	if (options.reduceOp.op_ != c10d::ReduceOp::SUM)
		Checks("allreduce")
			.refuse("unsupported reduction operation, only SUM is for sparse tensors");

	auto made = work(c10d::OpType::ALLREDUCE, "rondo:sparse_all_reduce", tensors);
	Tensors all;
	{
		std::lock_guard<std::mutex> guard(lock_);
		check_alive();
		set_timeout(options.timeout);
		sequence_++;
		all = gather_sparse(tensors[0]);
	}
	at::Tensor sum = std::accumulate(all.begin() + 1, all.end(), all[0],
		[](const at::Tensor &a, const at::Tensor &b) { return a + b; });
	tensors[0].copy_(sum.coalesce());
	made->give(tensors);
	made->end();
	return made;
}

} // namespace rondo_torch

#endif
