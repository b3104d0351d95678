#ifndef RONDO_TORCH_COLLECTIVES_H
#define RONDO_TORCH_COLLECTIVES_H

/* torch's collectives, as calls of rondo.h. */

#include "checks.h"
#include "group_life.h"

namespace rondo_torch
{

/* ---- Lists of blocks ------------------------------------------------------------------------ */

/* Tensors as the library's arrays of blocks. */
struct Blocks {
	std::vector<void *> data;
	std::vector<size_t> counts;

	void add(void *block, const at::Tensor &tensor, size_t width)
	{
		data.push_back(block);
		counts.push_back(tensor.numel() * width);
	}
};

inline Blocks input_blocks(Work &work, const Tensors &tensors, size_t width)
{
	Blocks blocks;

	for (const at::Tensor &tensor : tensors)
		blocks.add(const_cast<void *>(work.input(tensor)), tensor, width);
	return blocks;
}

inline Blocks output_blocks(Work &work, const Tensors &tensors, size_t width)
{
	Blocks blocks;

	for (const at::Tensor &tensor : tensors)
		blocks.add(work.output(tensor), tensor, width);
	return blocks;
}

/* ---- Broadcast and reductions --------------------------------------------------------------- */

inline WorkPointer Group::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options)
{
	Checks checks("broadcast");

	checks.root(options.rootRank, getSize());
	checks.root_tensor(options.rootTensor, tensors.size());
	checks.dense(tensors[0]);
	checks.alike(tensors, tensors[0]);

	auto made = work(c10d::OpType::BROADCAST, "rondo:broadcast", tensors);
	const at::Tensor &moved = tensors[options.rootTensor];
	Type type = moved_type(moved);
	void *data = made->in_place(moved);
	size_t count = moved.numel() * type.width;

	if (tensors.size() > 1)
		made->copy_later(moved, tensors);

	made->give(tensors);
	return start(made, options.timeout, [&] {
		rondo_broadcast(comm_, data, data, count, type.rondo, options.rootRank, nullptr);
	});
}

/* One tensor of those that a rank has. */
inline at::Tensor combine(
	const Checks &checks, const Tensors &tensors, c10d::ReduceOp::RedOpType op)
{
	at::Tensor all = tensors[0];

	for (size_t i = 1; i < tensors.size(); i++) {
		if (op == c10d::ReduceOp::SUM)
			all = all + tensors[i];
		else if (op == c10d::ReduceOp::PRODUCT)
			all = all * tensors[i];
		else if (op == c10d::ReduceOp::MIN)
			all = at::minimum(all, tensors[i]);
		else if (op == c10d::ReduceOp::MAX)
			all = at::maximum(all, tensors[i]);
		else if (op == c10d::ReduceOp::BAND)
			all = at::bitwise_and(all, tensors[i]);
		else if (op == c10d::ReduceOp::BOR)
			all = at::bitwise_or(all, tensors[i]);
		else if (op == c10d::ReduceOp::BXOR)
			all = at::bitwise_xor(all, tensors[i]);
		else
			checks.refuse(c10::str(op_name(op), " takes a single tensor of each rank"));
	}
	return all;
}

inline WorkPointer Group::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options)
{
	Checks checks("allreduce");

	if (tensors.empty())
		checks.refuse("requires non-empty tensor list");
	checks.alike(tensors, tensors[0]);
	if (tensors[0].layout() == at::kSparse)
		return allreduce_sparse(tensors, options);
	checks.dense(tensors[0]);

	auto made = work(c10d::OpType::ALLREDUCE, "rondo:all_reduce", tensors);
	at::Tensor combined = combine(checks, tensors, options.reduceOp.op_);
	void *data = made->in_place(combined);
	size_t count = combined.numel();

	if (tensors.size() > 1)
		made->copy_later(combined, tensors);
	made->give(tensors);
	return start_reduction(made, options.timeout, options.reduceOp, tensors[0].scalar_type(),
		[&](rondo_op op, const Type &type) {
			rondo_all_reduce(
				comm_, data, data, count * type.width, type.rondo, op, nullptr);
		});
}

inline WorkPointer Group::allreduce_coalesced(
	Tensors &tensors, const c10d::AllreduceCoalescedOptions &options)
{
	Checks checks("allreduce_coalesced");

	if (tensors.empty())
		checks.refuse("requires non-empty tensor list");
	for (size_t i = 0; i < tensors.size(); i++) {
		checks.same_layout(tensors[i], tensors[0], i);
		checks.dense(tensors[i]);
		if (tensors[i].scalar_type() != tensors[0].scalar_type())
			checks.refuse("tensors must all have the same type");
	}

	auto made = work(c10d::OpType::ALLREDUCE_COALESCED, "rondo:all_reduce", tensors);
	std::vector<void *> data;
	std::set<const void *> seen;

	/* A list may have a tensor twice, which is not summed twice. */
	for (const at::Tensor &tensor : tensors) {
		bool is_new = seen.insert(tensor.data_ptr()).second;
		data.push_back(made->in_place(is_new ? tensor : tensor.clone()));
	}
	made->give(tensors);
	return start_reduction(made, options.timeout, options.reduceOp, tensors[0].scalar_type(),
		[&](rondo_op op, const Type &type) {
			for (size_t i = 0; i < tensors.size(); i++)
				rondo_all_reduce(comm_, data[i], data[i],
					tensors[i].numel() * type.width, type.rondo, op, nullptr);
		});
}

inline WorkPointer Group::reduce(Tensors &tensors, const c10d::ReduceOptions &options)
{
	Checks checks("reduce");

	checks.root(options.rootRank, getSize());
	checks.root_tensor(options.rootTensor, tensors.size());
	checks.single(tensors);

	auto made = work(c10d::OpType::REDUCE, "rondo:reduce", tensors);
	bool is_root = getRank() == options.rootRank;
	void *recv = is_root ? made->in_place(tensors[0]) : nullptr;
	const void *send = is_root ? recv : made->input(tensors[0]);
	size_t count = tensors[0].numel();

	made->give(tensors);
	return start_reduction(made, options.timeout, options.reduceOp, tensors[0].scalar_type(),
		[&](rondo_op op, const Type &type) {
			rondo_reduce(comm_, send, recv, count * type.width, type.rondo, op,
				options.rootRank, nullptr);
		});
}

inline WorkPointer Group::reduce_scatter(
	Tensors &outputs, Lists &inputs, const c10d::ReduceScatterOptions &options)
{
	Checks checks("reduce_scatter");

	checks.single(outputs);
	if (inputs.size() != 1 || inputs[0].size() != static_cast<size_t>(getSize()))
		checks.refuse("requires a list with one tensor for each rank");
	for (size_t i = 0; i < inputs[0].size(); i++) {
		checks.dense(inputs[0][i]);
		checks.same_type(inputs[0][i], outputs[0], i);
	}
	checks.alike({ inputs[0][getRank()] }, outputs[0]);

	auto made = work(c10d::OpType::REDUCE_SCATTER, "rondo:reduce_scatter", inputs[0]);
	Blocks blocks = input_blocks(*made, inputs[0], 1);
	void *recv = made->output(outputs[0]);

	made->give(outputs);
	return start_reduction(made, options.timeout, options.reduceOp, outputs[0].scalar_type(),
		[&](rondo_op op, const Type &type) {
			for (size_t &count : blocks.counts)
				count *= type.width;
			rondo_reduce_scatter_list(comm_, blocks.data.data(), recv,
				blocks.counts.data(), type.rondo, op, nullptr);
		});
}

inline WorkPointer Group::_reduce_scatter_base(
	at::Tensor &output, at::Tensor &input, const c10d::ReduceScatterOptions &options)
{
	Checks("reduce_scatter")
		.whole(input, output, getSize(),
			"input tensor must be the same size as output size times world size");

	auto made =
		work(c10d::OpType::_REDUCE_SCATTER_BASE, "rondo:_reduce_scatter_base", { input });
	const void *send = made->input(input);
	void *recv = made->output(output);
	size_t count = output.numel();

	made->give({ output });
	return start_reduction(made, options.timeout, options.reduceOp, output.scalar_type(),
		[&](rondo_op op, const Type &type) {
			rondo_reduce_scatter(
				comm_, send, recv, count * type.width, type.rondo, op, nullptr);
		});
}

/* ---- Gathers and scatters ------------------------------------------------------------------- */

inline WorkPointer Group::allgather(
	Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options)
{
	Checks checks("allgather");

	if (inputs.empty())
		checks.refuse("requires non-empty input tensor list");
	if (inputs.size() != outputs.size())
		checks.refuse("requires input/output tensor lists to have the same length");
	checks.dense(inputs[0]);
	checks.alike(inputs, inputs[0]);
	const size_t tensors = inputs.size() * getSize();
	for (size_t i = 0; i < outputs.size(); i++) {
		if (outputs[i].size() != tensors)
			checks.refuse(c10::str("invalid output tensor list at index ", i,
				" (expected length ", tensors, ", got ", outputs[i].size(), ")"));
		checks.alike(outputs[i], inputs[0]);
	}

	auto made = work(c10d::OpType::ALLGATHER, "rondo:all_gather", inputs);
	Lists columns(inputs.size());

	/* All lists get the same. */
	for (size_t k = 0; k < tensors; k++) {
		columns[k % inputs.size()].push_back(outputs[0][k]);
		for (size_t i = 1; i < outputs.size(); i++)
			made->copy_later(outputs[0][k], { outputs[i][k] });
	}
	made->give_lists(outputs);
	return start_all_gathers(made, options.timeout, inputs, columns);
}

/* A call for each input. Its column has a tensor for each rank. */
inline WorkPointer Group::start_all_gathers(const c10::intrusive_ptr<Work> &work,
	Milliseconds timeout, const Tensors &inputs, const Lists &columns)
{
	std::vector<const void *> sends;
	std::vector<Blocks> blocks;

	for (size_t i = 0; i < inputs.size(); i++) {
		sends.push_back(work->input(inputs[i]));
		blocks.push_back(output_blocks(*work, columns[i], moved_type(inputs[i]).width));
	}
	return start(work, timeout, [&] {
		for (size_t i = 0; i < inputs.size(); i++)
			rondo_all_gather_list(comm_, sends[i], blocks[i].data.data(),
				blocks[i].counts.data(), moved_type(inputs[i]).rondo, nullptr);
	});
}

inline WorkPointer Group::_allgather_base(
	at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &options)
{
	Checks("allgather")
		.whole(output, input, getSize(),
			"output tensor size must be equal to world_size times input tensor size");

	auto made = work(c10d::OpType::_ALLGATHER_BASE, "rondo:_all_gather_base", { input });
	Type type = moved_type(input);
	const void *send = made->input(input);
	void *recv = made->output(output);
	size_t count = input.numel() * type.width;

	made->give({ output });
	return start(made, options.timeout,
		[&] { rondo_all_gather(comm_, send, recv, count, type.rondo, nullptr); });
}

/* A list of tensors for each rank. */
inline WorkPointer Group::allgather_coalesced(
	Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options)
{
	Checks checks("allgather_coalesced");

	if (inputs.empty())
		checks.refuse("requires non-empty input tensor list");
	if (outputs.size() != static_cast<size_t>(getSize()))
		checks.refuse("output lists should be equal to world size");
	for (const Tensors &list : outputs) {
		if (list.size() != inputs.size())
			checks.refuse("invalid output size: (expected length " +
				      std::to_string(inputs.size()) + ", got " +
				      std::to_string(list.size()) + ")");
		for (size_t i = 0; i < inputs.size(); i++) {
			checks.dense(inputs[i]);
			if (list[i].sizes() != inputs[i].sizes())
				checks.refuse(c10::str("invalid size of output tensor at index ", i,
					" (expected length ", inputs[i].sizes(), ", got ",
					list[i].sizes(), ")"));
			checks.match(list[i], inputs[i], i);
		}
	}

	auto made = work(c10d::OpType::ALLGATHER_COALESCED, "rondo:all_gather", inputs);
	Lists columns(inputs.size());

	for (const Tensors &list : outputs)
		for (size_t i = 0; i < inputs.size(); i++)
			columns[i].push_back(list[i]);
	made->give_lists(outputs);
	return start_all_gathers(made, options.timeout, inputs, columns);
}

inline WorkPointer Group::gather(
	Lists &outputs, Tensors &inputs, const c10d::GatherOptions &options)
{
	Checks checks("gather");
	bool is_root = getRank() == options.rootRank;

	checks.root(options.rootRank, getSize());
	checks.single(inputs, "input ");
	if (is_root)
		checks.list(outputs, getSize(), inputs[0], "output", "Output");
	else
		checks.no_list(outputs, "output");

	auto made = work(c10d::OpType::GATHER, "rondo:gather", inputs);
	Type type = moved_type(inputs[0]);
	const void *send = made->input(inputs[0]);
	size_t count = inputs[0].numel() * type.width;
	Tensors list = is_root ? outputs[0] : Tensors();
	Blocks blocks = output_blocks(*made, list, type.width);

	made->give(list);
	return start(made, options.timeout, [&] {
		rondo_gather_list(comm_, send, count, blocks.data.data(), blocks.counts.data(),
			type.rondo, options.rootRank, nullptr);
	});
}

inline WorkPointer Group::scatter(
	Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &options)
{
	Checks checks("scatter");
	bool is_root = getRank() == options.rootRank;

	checks.root(options.rootRank, getSize());
	checks.single(outputs, "output ");
	if (is_root)
		checks.list(inputs, getSize(), outputs[0], "input", "Input");
	else
		checks.no_list(inputs, "input");

	auto made = work(c10d::OpType::SCATTER, "rondo:scatter", is_root ? inputs[0] : Tensors());
	Type type = moved_type(outputs[0]);
	void *recv = made->output(outputs[0]);
	size_t count = outputs[0].numel() * type.width;
	Blocks blocks = input_blocks(*made, is_root ? inputs[0] : Tensors(), type.width);

	made->give(outputs);
	return start(made, options.timeout, [&] {
		rondo_scatter_list(comm_, blocks.data.data(), blocks.counts.data(), recv, count,
			type.rondo, options.rootRank, nullptr);
	});
}

/* ---- Everything to everyone ----------------------------------------------------------------- */

/* Elements for each rank: `rows` along the first dimension, or equal parts. */
inline std::vector<size_t> split(const Checks &checks, const at::Tensor &tensor,
	const std::vector<int64_t> &rows, size_t size, size_t width)
{
	size_t row = tensor.dim() && tensor.size(0) ? tensor.numel() / tensor.size(0) : 1;
	std::vector<size_t> counts;
	int64_t sum = 0;

	if (rows.empty()) {
		if (!tensor.dim() || tensor.size(0) % size)
			checks.refuse("Tensor's dim 0 does not divide equally across group size");
		return std::vector<size_t>(size, tensor.numel() / size * width);
	}
	if (rows.size() != size)
		checks.refuse("Number of tensor splits not equal to group size");
	for (int64_t count : rows) {
		if (count < 0)
			checks.refuse("Split sizes are not negative");
		counts.push_back(count * row * width);
		sum += count;
	}
	if (!tensor.dim() || sum != tensor.size(0))
		checks.refuse("Split sizes doesn't match total dim 0 size");
	return counts;
}

inline WorkPointer Group::alltoall_base(at::Tensor &output, at::Tensor &input,
	std::vector<int64_t> &output_rows, std::vector<int64_t> &input_rows,
	const c10d::AllToAllOptions &options)
{
	Checks checks("alltoall");

	checks.dense(output);
	checks.dense(input);
	if (output.scalar_type() != input.scalar_type())
		checks.refuse("tensors must all have the same type");

	auto made = work(c10d::OpType::ALLTOALL_BASE, "rondo:all_to_all", { input });
	Type type = moved_type(input);
	std::vector<size_t> sent = split(checks, input, input_rows, getSize(), type.width);
	std::vector<size_t> received = split(checks, output, output_rows, getSize(), type.width);
	const void *send = made->input(input);
	void *recv = made->output(output);

	made->give({ output });
	return start(made, options.timeout, [&] {
		rondo_all_to_all_v(comm_, send, sent.data(), nullptr, recv, received.data(),
			nullptr, type.rondo, nullptr);
	});
}

inline WorkPointer Group::alltoall(
	Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options)
{
	Checks checks("alltoall");
	size_t size = getSize();

	if (outputs.size() != size || inputs.size() != size)
		checks.refuse("requires a tensor for each rank in both lists");
	for (const Tensors *list : { &outputs, &inputs }) {
		for (const at::Tensor &tensor : *list) {
			checks.dense(tensor);
			if (tensor.scalar_type() != inputs[0].scalar_type())
				checks.refuse("tensors must all have the same type");
		}
	}

	auto made = work(c10d::OpType::ALLTOALL, "rondo:all_to_all", inputs);
	Type type = moved_type(inputs[0]);
	Blocks sent = input_blocks(*made, inputs, type.width);
	Blocks received = output_blocks(*made, outputs, type.width);

	made->give(outputs);
	return start(made, options.timeout, [&] {
		rondo_all_to_all_list(comm_, sent.data.data(), sent.counts.data(),
			received.data.data(), received.counts.data(), type.rondo, nullptr);
	});
}

#if TORCH_VERSION_MAJOR >= 2
/* ---- Coalesced forms of torch 2 ------------------------------------------------------------- */

inline WorkPointer Group::allgather_into_tensor_coalesced(
	Tensors &outputs, Tensors &inputs, const c10d::AllgatherOptions &options)
{
	Checks checks("allgather_into_tensor_coalesced");

	if (outputs.size() != inputs.size())
		checks.refuse("requires input/output tensor lists to have the same length");
	for (size_t i = 0; i < inputs.size(); i++)
		checks.whole(outputs[i], inputs[i], getSize(),
			"output tensor size must be equal to world_size times input tensor size");

	auto made = work(c10d::OpType::COALESCED, "rondo:all_gather", inputs);
	std::vector<const void *> sends;
	std::vector<void *> recvs;

	for (size_t i = 0; i < inputs.size(); i++) {
		sends.push_back(made->input(inputs[i]));
		recvs.push_back(made->output(outputs[i]));
	}
	made->give(outputs);
	return start(made, options.timeout, [&] {
		for (size_t i = 0; i < inputs.size(); i++) {
			Type type = moved_type(inputs[i]);
			rondo_all_gather(comm_, sends[i], recvs[i], inputs[i].numel() * type.width,
				type.rondo, nullptr);
		}
	});
}

inline WorkPointer Group::reduce_scatter_tensor_coalesced(
	Tensors &outputs, Tensors &inputs, const c10d::ReduceScatterOptions &options)
{
	Checks checks("reduce_scatter_tensor_coalesced");

	if (outputs.empty() || outputs.size() != inputs.size())
		checks.refuse("requires input/output tensor lists to have the same length");
	for (size_t i = 0; i < inputs.size(); i++) {
		checks.whole(inputs[i], outputs[i], getSize(),
			"input tensor must be the same size as output size times world size");
		if (inputs[i].scalar_type() != inputs[0].scalar_type())
			checks.refuse("tensors must all have the same type");
	}

	auto made = work(c10d::OpType::COALESCED, "rondo:reduce_scatter", inputs);
	std::vector<const void *> sends;
	std::vector<void *> recvs;

	for (size_t i = 0; i < inputs.size(); i++) {
		sends.push_back(made->input(inputs[i]));
		recvs.push_back(made->output(outputs[i]));
	}
	made->give(outputs);
	return start_reduction(made, options.timeout, options.reduceOp, inputs[0].scalar_type(),
		[&](rondo_op op, const Type &type) {
			for (size_t i = 0; i < inputs.size(); i++)
				rondo_reduce_scatter(comm_, sends[i], recvs[i],
					outputs[i].numel() * type.width, type.rondo, op, nullptr);
		});
}
#endif

} // namespace rondo_torch

#endif
