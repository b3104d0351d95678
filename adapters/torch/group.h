#ifndef RONDO_TORCH_GROUP_H
#define RONDO_TORCH_GROUP_H

/* A process group: one communicator, on which each call of torch's is a request. */

#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include "work.h"

namespace rondo_torch
{

#if TORCH_VERSION_MAJOR >= 2
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif

using Milliseconds = std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

/* Entries of one or several sparse tensors, which follow each other. */
struct Entries {
	at::Tensor indices, values;
};

/*
 * Threads: torch's threads may call at any time. The lock orders the starts of their calls; waits
 * do not take it. The order is of calls that start in parts, and is taken before the lock.
 */
class Group : public Base
{
      public:
	/*
	 * Collective among `ranks`. They are the parent's, where there is one, and meet on its
	 * communicator. Else they meet by the store.
	 */
	static c10::intrusive_ptr<Group> create(const c10::intrusive_ptr<c10d::Store> &store,
		int rank, int size, Milliseconds timeout, const c10::intrusive_ptr<Group> &parent,
		const std::vector<int> &ranks);
	Group(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
		Milliseconds timeout);
	~Group() override;

	/*
	 * From now on calls throw. The caller ends the lifetime. None the second time. Not while
	 * waiting: a call's callback may try another call.
	 */
	std::shared_ptr<Lifetime> begin_leaving();

	const std::string getBackendName() const override
	{
		return "rondo";
	}

	WorkPointer broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
	WorkPointer allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
	WorkPointer allreduce_coalesced(
		Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) override;
	WorkPointer reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
	WorkPointer allgather(
		Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override;
	WorkPointer _allgather_base(at::Tensor &output, at::Tensor &input,
		const c10d::AllgatherOptions &options) override;
	WorkPointer allgather_coalesced(
		Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override;
	WorkPointer gather(
		Lists &outputs, Tensors &inputs, const c10d::GatherOptions &options) override;
	WorkPointer scatter(
		Tensors &outputs, Lists &inputs, const c10d::ScatterOptions &options) override;
	WorkPointer reduce_scatter(Tensors &outputs, Lists &inputs,
		const c10d::ReduceScatterOptions &options) override;
	WorkPointer _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
		const c10d::ReduceScatterOptions &options) override;
	WorkPointer alltoall_base(at::Tensor &output, at::Tensor &input,
		std::vector<int64_t> &output_rows, std::vector<int64_t> &input_rows,
		const c10d::AllToAllOptions &options) override;
	WorkPointer alltoall(
		Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) override;
	WorkPointer barrier(const c10d::BarrierOptions &options) override;
	void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all) override;
	WorkPointer send(Tensors &tensors, int to, int tag) override;
	WorkPointer recv(Tensors &tensors, int from, int tag) override;
	WorkPointer recvAnysource(Tensors &tensors, int tag) override;
#if TORCH_VERSION_MAJOR >= 2
	WorkPointer allgather_into_tensor_coalesced(
		Tensors &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) override;
	WorkPointer reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
		const c10d::ReduceScatterOptions &options) override;
#endif

	/* All ranks count their collectives from 0. */
	void setSequenceNumberForGroup() override
	{
	}
	uint64_t getSequenceNumberForGroup() override
	{
		return sequence_;
	}

      private:
	/* Every call makes one first: it refuses those of a forked child. */
	c10::intrusive_ptr<Work> work(
		c10d::OpType type, const char *title, const Tensors &inputs = {});
	template <typename Calls>
	WorkPointer start(
		const c10::intrusive_ptr<Work> &work, Milliseconds timeout, const Calls &calls);
	template <typename Calls>
	WorkPointer start_untitled(Milliseconds timeout, const Calls &calls);
	template <typename Calls>
	WorkPointer start_reduction(const c10::intrusive_ptr<Work> &work, Milliseconds timeout,
		const c10d::ReduceOp &op, at::ScalarType type, const Calls &calls);
	WorkPointer receive(Tensors &tensors, int from, int tag, c10d::OpType type);
	template <typename Prepare>
	WorkPointer start_message(const c10::intrusive_ptr<Work> &work, const Prepare &prepare);
	WorkPointer start_all_gathers(const c10::intrusive_ptr<Work> &work, Milliseconds timeout,
		const Tensors &inputs, const Lists &columns);
	WorkPointer allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options);
	WorkPointer start_entries(const Entries &mine, const std::vector<int64_t> &counts,
		Milliseconds timeout, Entries &all);
	Tensors gather_sparse(const at::Tensor &tensor, Milliseconds timeout);
	void check_alive() const;
	void set_timeout(Milliseconds timeout);
	rondo_op premul_op(const c10d::ReduceOp &op, at::ScalarType type);
	void lead_monitored_barrier(const std::string &key, Milliseconds timeout, bool wait_all);
	void follow_monitored_barrier(const std::string &key, Milliseconds timeout);

	c10::intrusive_ptr<c10d::Store> store_;
	rondo_comm *comm_ = nullptr; /* none once the group was left */
	const Milliseconds timeout_;
	int set_timeout_ms_ = 0;
	std::atomic<uint64_t> sequence_{ 0 };
	uint64_t monitored_barriers_ = 0;
	std::recursive_mutex order_;
	std::mutex lock_;
	std::shared_ptr<Lifetime> life_; /* set once */
};

/*
 * Ends groups on this rank: waits for their calls, 5 s at most together, then revokes those that
 * are left. Receives that threads wait for are cancelled. Any number of times. In a callback it
 * returns at once, and another thread does so.
 */
void leave(const std::vector<Group *> &groups);
/* Leaves all groups of this process that live: at the interpreter's exit. */
void leave_all();

} // namespace rondo_torch

#endif
