#ifndef RONDO_TORCH_CHECKS_H
#define RONDO_TORCH_CHECKS_H

/* Checks of the arguments of torch's calls. */

#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "group.h"

namespace rondo_torch
{

/* Errors of arguments name the call. */
class Checks
{
      public:
	explicit Checks(const char *call) : call_(call)
	{
	}

	[[noreturn]] void refuse(const std::string &reason) const
	{
		throw Error(RONDO_INVALID, "rondo: " + std::string(call_) + ": " + reason);
	}

	void root(int64_t rank, int size) const
	{
		if (rank < 0 || rank >= size)
			refuse("invalid root rank: " + std::to_string(rank));
	}

	void root_tensor(int64_t tensor, size_t tensors) const
	{
		if (tensor < 0 || static_cast<size_t>(tensor) >= tensors)
			refuse("invalid root tensor: " + std::to_string(tensor));
	}

	/* A dense tensor in host memory. */
	void dense(const at::Tensor &tensor) const
	{
		if (!tensor.device().is_cpu())
			refuse("unsupported device type " + tensor.device().str() +
				": only supports CPU tensors");
		if (tensor.layout() != at::kStrided)
			refuse("unsupported layout: only supports dense tensors");
	}

	void single(const Tensors &tensors, const char *name = "") const
	{
		if (tensors.size() != 1)
			refuse(c10::str("requires a single-element ", name,
				"tensor list, not one of ", tensors.size()));
		dense(tensors[0]);
	}

	/* The tensor's number in a list is i. */
	void same_layout(const at::Tensor &tensor, const at::Tensor &like, size_t i) const
	{
		if (tensor.layout() != like.layout())
			differs("layout", i, like.layout(), tensor.layout());
	}

	void same_type(const at::Tensor &tensor, const at::Tensor &like, size_t i) const
	{
		if (tensor.scalar_type() != like.scalar_type())
			differs("type", i, like.toString(), tensor.toString());
	}

	void match(const at::Tensor &tensor, const at::Tensor &like, size_t i) const
	{
		same_layout(tensor, like, i);
		if (tensor.device() != like.device())
			differs("device", i, like.device(), tensor.device());
		same_type(tensor, like, i);
		if (tensor.sizes() != like.sizes())
			differs("size", i, like.sizes(), tensor.sizes());
	}

	void alike(const Tensors &tensors, const at::Tensor &like) const
	{
		for (size_t i = 0; i < tensors.size(); i++)
			match(tensors[i], like, i);
	}

	/* A list of one list, with a tensor like `like` for each rank. */
	void list(const Lists &lists, size_t size, const at::Tensor &like, const char *name,
		const char *title) const
	{
		if (lists.size() != 1)
			refuse(c10::str("requires a single-element ", name,
				" list containing a list with ", size, " tensors"));
		if (lists[0].size() != size)
			refuse(c10::str("Incorrect ", name, " list size ", lists[0].size(), ". ",
				title, " list size should be ", size,
				", same as size of the process group."));
		alike(lists[0], like);
	}

	void no_list(const Lists &lists, const char *name) const
	{
		if (!lists.empty() && !(lists.size() == 1 && lists[0].empty()))
			refuse(c10::str("requires empty ", name, " on non-root"));
	}

	/* `large` has `size` times the elements of `small`, of its type. */
	void whole(const at::Tensor &large, const at::Tensor &small, int size,
		const char *reason) const
	{
		dense(large);
		dense(small);
		if (large.scalar_type() != small.scalar_type())
			refuse("output tensor must have the same type as input tensor");
		if (large.numel() != small.numel() * size)
			refuse(reason);
	}

      private:
	template <typename T>
	[[noreturn]] void differs(const char *what, size_t i, const T &expected, const T &got) const
	{
		refuse(c10::str("invalid tensor ", what, " at index ", i, " (expected ", expected,
			", got ", got, ")"));
	}

	const char *call_;
};

} // namespace rondo_torch

#endif
