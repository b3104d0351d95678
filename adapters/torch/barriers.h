#ifndef RONDO_TORCH_BARRIERS_H
#define RONDO_TORCH_BARRIERS_H

/* Barriers, of which one names the ranks that are late. */

#include <chrono>
#include <thread>

#include "collectives.h"

namespace rondo_torch
{

inline WorkPointer Group::barrier(const c10d::BarrierOptions &options)
{
	auto made = work(c10d::OpType::BARRIER, "rondo:barrier");

	made->give({});
	return start(made, options.timeout, [&] { rondo_barrier(comm_, nullptr); });
}

/*
 * By the store: ranks that are late do not end the communicator. Rank 0 waits for a key of each
 * other rank, and then sets one that all wait for, with its verdict.
 */
inline void Group::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all)
{
	Milliseconds timeout = options.timeout == c10d::kUnsetTimeout ? timeout_ : options.timeout;
	std::string key;

	check_process(*life_);
	{
		std::lock_guard<std::mutex> guard(lock_);
		check_alive();
		key = "monitored_barrier/" + std::to_string(monitored_barriers_++) + "/";
	}
	if (getRank() == 0)
		lead_monitored_barrier(key, timeout, wait_all);
	else
		follow_monitored_barrier(key, timeout);
}

inline void set_text(c10d::Store &store, const std::string &key, const std::string &text)
{
	store.set(key, std::vector<uint8_t>(text.begin(), text.end()));
}

/* Whether the key is there in time. TCPStore's wait() that times out leaves its answer behind, and
   the next call would take that for its own. */
inline bool await_key(
	c10d::Store &store, const std::string &key, std::chrono::steady_clock::time_point until)
{
	while (!store.check({ key })) {
		if (std::chrono::steady_clock::now() >= until)
			return false;
		std::this_thread::sleep_for(Milliseconds(2));
	}
	return true;
}

inline void Group::lead_monitored_barrier(
	const std::string &key, Milliseconds timeout, bool wait_all)
{
	if (timeout.count() <= 0)
		throw Error(RONDO_TIMEOUT, c10::str("Rank 0 timed out in monitoredBarrier after ",
						   timeout.count(), " ms."));

	auto until = std::chrono::steady_clock::now() + timeout;
	std::vector<int> late;

	for (int rank = 1; rank < getSize() && (wait_all || late.empty()); rank++)
		if (!await_key(*store_, key + std::to_string(rank), until))
			late.push_back(rank);
	if (late.empty()) {
		set_text(*store_, key + "0", "");
		return;
	}

	std::string reason =
		c10::str("[Rank 0]: Rank", late.size() > 1 ? "s " : " ", c10::Join(", ", late),
			" failed to pass monitoredBarrier in ", timeout.count(), " ms");
	set_text(*store_, key + "0", reason);
	throw Error(RONDO_TIMEOUT, reason);
}

/* Rank 0 may come as late as its timeout allows, and then waits for as long. */
inline void Group::follow_monitored_barrier(const std::string &key, Milliseconds timeout)
{
	Milliseconds most = std::max(2 * timeout, Milliseconds(1));
	std::string reason;

	set_text(*store_, key + std::to_string(getRank()), "");
	if (await_key(*store_, key + "0", std::chrono::steady_clock::now() + most)) {
		std::vector<uint8_t> verdict = store_->get(key + "0");
		reason.assign(verdict.begin(), verdict.end());
	} else {
		reason = c10::str("It did not answer in ", most.count(), " ms");
	}
	if (!reason.empty())
		throw Error(RONDO_TIMEOUT,
			c10::str("Rank ", getRank(),
				" successfully reached monitoredBarrier, but "
				"received errors while waiting for send/recv from rank 0. ",
				reason));
}

} // namespace rondo_torch

#endif
