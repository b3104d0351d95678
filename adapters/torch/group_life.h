#ifndef RONDO_TORCH_GROUP_LIFE_H
#define RONDO_TORCH_GROUP_LIFE_H

/* How a group begins and ends, and how its calls start. */

#include <algorithm>

#include "call_site.h"
#include "group.h"

namespace rondo_torch
{

/* The library's bounds of a timeout. */
inline int in_bounds_ms(Milliseconds timeout)
{
	return static_cast<int>(std::clamp<int64_t>(timeout.count(), 10, 86400000));
}

inline Error destroyed()
{
	return Error(RONDO_INVALID, "rondo: this process group has been destroyed");
}

/* ---- Beginning ------------------------------------------------------------------------------ */

inline Group::Group(
	const c10::intrusive_ptr<c10d::Store> &store, int rank, int size, Milliseconds timeout)
    : Base(rank, size), store_(store), timeout_(timeout)
{
#if TORCH_VERSION_MAJOR < 2
	init();
#endif
}

/* A store may outlive its group: each group on it has a key of its own. */
inline struct rondo_unique_id meet(c10d::Store &store, int rank)
{
	struct rondo_unique_id id;
	std::string key = c10::str("rondo/id/", store.add(c10::str("rondo/", rank), 1));

	if (rank == 0) {
		check(rondo_get_unique_id(&id));
		store.set(key, std::vector<uint8_t>(id.bytes, id.bytes + sizeof(id.bytes)));
		return id;
	}
	std::vector<uint8_t> bytes = store.get(key);
	TORCH_CHECK(bytes.size() == sizeof(id.bytes), "rondo: the store has no unique id");
	std::copy(bytes.begin(), bytes.end(), id.bytes);
	return id;
}

inline rondo_comm *create_by_store(c10d::Store &store, int rank, int size, Milliseconds timeout)
{
	struct rondo_unique_id id = meet(store, rank);
	struct rondo_config config = RONDO_CONFIG_INIT;
	rondo_comm *comm;

	config.rank = rank;
	config.size = size;
	config.timeout_ms = config.init_timeout_ms = in_bounds_ms(timeout);
	config.unique_id = &id;
	check(rondo_comm_create(&comm, &config));
	return comm;
}

inline c10::intrusive_ptr<Group> Group::create(const c10::intrusive_ptr<c10d::Store> &store,
	int rank, int size, Milliseconds timeout, const c10::intrusive_ptr<Group> &parent,
	const std::vector<int> &ranks)
{
	auto group = c10::make_intrusive<Group>(store, rank, size, timeout);

	if (parent) {
		check_process(*parent->life_);
		Use use(*parent->life_);
		if (!use)
			throw destroyed();
		check(rondo_comm_create_group(
			parent->life_->comm(), ranks.data(), size, 0, &group->comm_));
	} else {
		group->comm_ = create_by_store(*store, rank, size, timeout);
	}
	group->life_ = std::make_shared<Lifetime>(group->comm_);
	std::lock_guard<std::mutex> guard(process->groups_lock);
	process->groups.insert(group.get());
	return group;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

inline void Group::check_alive() const
{
	if (!comm_)
		throw destroyed();
}

inline void Group::set_timeout(Milliseconds timeout)
{
	int timeout_ms = in_bounds_ms(timeout.count() > 0 ? timeout : timeout_);

	if (timeout_ms == set_timeout_ms_)
		return;
	check(rondo_comm_set_timeout(comm_, timeout_ms));
	set_timeout_ms_ = timeout_ms;
}

inline c10::intrusive_ptr<Work> Group::work(
	c10d::OpType type, const char *title, const Tensors &inputs)
{
	check_process(*life_);
	return c10::make_intrusive<Work>(getRank(), type, title, inputs);
}

/* `calls` makes calls of Rondo's. Where one is refused, the group of calls is. */
template <typename Calls>
WorkPointer Group::start(
	const c10::intrusive_ptr<Work> &work, Milliseconds timeout, const Calls &calls)
{
	const char *site = call_site();
	std::unique_lock<std::recursive_mutex> order(order_, std::defer_lock);
	rondo_request *request;

	/* A call that starts in parts may wait for the end of this callback. */
	if (!callbacks_here)
		order.lock();
	std::lock_guard<std::mutex> guard(lock_);

	check_alive();
	set_timeout(timeout);
	sequence_++;
	rondo_set_call_site(site);
	rondo_group_start();
	calls();
	rondo_set_call_site(nullptr);
	check(rondo_group_prepare(&request));
	work->start(life_, request, true);
	/* The callback may wait for it, in the thread that else would run it. */
	if (callbacks_here)
		work->isCompleted();
	return work;
}

/* A part of a call of torch's, whose work has the title. */
template <typename Calls>
WorkPointer Group::start_untitled(Milliseconds timeout, const Calls &calls)
{
	auto part = work(c10d::OpType::UNKNOWN, nullptr);

	part->give({});
	return start(part, timeout, calls);
}

inline rondo_op Group::premul_op(const c10d::ReduceOp &op, at::ScalarType type)
{
	const auto *given =
		dynamic_cast<const c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
	const Type *known = find_type(type);
	rondo_op made;

	TORCH_CHECK(given, "rondo: PREMUL_SUM without a factor");
	TORCH_CHECK(known && known->width == 1, "Cannot use ReduceOp.PREMUL_SUM with ", type);
#if TORCH_VERSION_MAJOR >= 2
	const at::Tensor tensor = given->tensor_factor;
#else
	const at::Tensor tensor =
		given->tensor_factors.empty() ? at::Tensor() : given->tensor_factors[0];
#endif
	at::Tensor factor = tensor.defined() ? tensor.to(type).reshape({ 1 })
					     : at::full({ 1 }, given->double_factor, type);
	std::lock_guard<std::mutex> guard(lock_);
	check_alive();
	check(rondo_op_create_premul(comm_, &made, factor.data_ptr(), known->rondo));
	return made;
}

/* `calls` has the operation, and the type with its width. */
template <typename Calls>
WorkPointer Group::start_reduction(const c10::intrusive_ptr<Work> &work, Milliseconds timeout,
	const c10d::ReduceOp &op, at::ScalarType torch, const Calls &calls)
{
	const Type *type = find_type(torch);

	TORCH_CHECK(type, "rondo: no reduction for tensors of ", torch);
	bool has_factor = op.op_ == c10d::ReduceOp::PREMUL_SUM;
	rondo_op found = has_factor ? premul_op(op, torch) : find_op(op.op_, *type);
	WorkPointer started = start(work, timeout, [&] { calls(found, *type); });
	if (has_factor) {
		/* The call has the factor. */
		std::lock_guard<std::mutex> guard(lock_);
		rondo_op_destroy(comm_, found);
	}
	return started;
}

/* ---- Ending --------------------------------------------------------------------------------- */

inline std::shared_ptr<Lifetime> Group::begin_leaving()
{
	std::unique_lock<std::mutex> guard(lock_, std::defer_lock);

	if (life_ && !life_->is_inherited())
		guard.lock();
	return std::exchange(comm_, nullptr) ? life_ : nullptr;
}

inline Group::~Group()
{
	{
		std::lock_guard<std::mutex> guard(process->groups_lock);
		process->groups.erase(this);
	}
	leave({ this });
}

template <typename Groups>
std::vector<std::shared_ptr<Lifetime>> begin_leaving(const Groups &groups)
{
	std::vector<std::shared_ptr<Lifetime>> lives;

	for (Group *group : groups)
		if (auto life = group->begin_leaving())
			lives.push_back(std::move(life));
	return lives;
}

/* In the same order on each rank is not needed: leaving is local. */
inline void end_until(const std::vector<std::shared_ptr<Lifetime>> &lives, Time until)
{
	for (const auto &life : lives)
		life->end(until);
}

inline void leave(const std::vector<Group *> &groups)
{
	end_until(begin_leaving(groups), end_bound());
}

inline void leave_all()
{
	Time until = end_bound();
	std::vector<std::shared_ptr<Lifetime>> lives;

	{
		/* Not while waiting: a callback may drop a group. */
		std::lock_guard<std::mutex> guard(process->groups_lock);
		lives = begin_leaving(process->groups);
	}
	end_until(lives, until);
	wait_for_enders(until);
}

} // namespace rondo_torch

#endif
