#ifndef RONDO_TORCH_LIFETIME_H
#define RONDO_TORCH_LIFETIME_H

/* How long a communicator lives: until its calls have ended, and no thread uses it. */

#include <pthread.h>
#include <rondo.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

namespace rondo_torch
{

using Time = std::chrono::steady_clock::time_point;
using Request = std::shared_ptr<rondo_request>;

/* Until when an end that begins now waits for calls. */
inline Time end_bound()
{
	return std::chrono::steady_clock::now() + std::chrono::seconds(5);
}

/* This thread is in so many ends of calls: the callbacks of futures run there. */
inline thread_local int callbacks_here = 0;

class Group;

/*
 * All threads of this process share it. It is never destroyed: threads that end communicators use
 * it while the process destroys its static objects. A forked child has one of its own, and takes no
 * lock of its parent's: other threads may have had it.
 */
struct Process {
	std::mutex groups_lock;
	std::set<Group *> groups; /* that live */
	std::mutex enders_lock;
	std::condition_variable enders_change;
	int enders = 0; /* threads that end communicators in place of a callback's thread */
};
inline Process *process = new Process;

/* Once, when the module begins. */
inline void renew_in_children()
{
	pthread_atfork(nullptr, nullptr, [] { process = new Process; });
}

/* Any thread may call any of this. Works share it with their group, which they may outlive. */
class Lifetime : public std::enable_shared_from_this<Lifetime>
{
      public:
	explicit Lifetime(rondo_comm *comm) : comm_(comm)
	{
	}

	/* Whether this process is a forked child, which cannot use the communicator. */
	bool is_inherited() const
	{
		return process_ != process;
	}

	/* Valid for who has a Use, or has not ended it. */
	rondo_comm *comm() const
	{
		return comm_;
	}

	void call_began()
	{
		std::lock_guard<std::mutex> guard(lock_);
		calls_++;
	}
	void call_ended()
	{
		std::lock_guard<std::mutex> guard(lock_);
		calls_--;
		change_.notify_all();
	}

	/*
	 * Destroys the communicator, once: cancels the receives that threads wait for, waits for
	 * calls and threads until the time, and then revokes those that are left. In a callback,
	 * for whose end the communicator waits, it returns at once, and another thread does so.
	 */
	void end(Time until);

      private:
	friend class Use;

	void cancel_receives();
	bool wait_until_unused(Time until);
	void destroy(Time until);

	rondo_comm *const comm_;
	const Process *const process_ = process;
	std::mutex lock_;
	std::condition_variable change_;
	int calls_ = 0, users_ = 0;
	bool ends_ = false;
	std::vector<Request> waited_for_; /* by threads */
};

/* A thread's use of a communicator, which is not destroyed meanwhile. None once its end began, and
   in a forked child. */
class Use
{
      public:
	/* The request is one that the thread waits for. */
	explicit Use(Lifetime &life, Request request = nullptr)
	    : life_(life), request_(std::move(request))
	{
		if (life_.is_inherited())
			return;
		std::lock_guard<std::mutex> guard(life_.lock_);
		is_valid_ = !life_.ends_;
		if (!is_valid_)
			return;
		life_.users_++;
		if (request_)
			life_.waited_for_.push_back(request_);
	}
	Use(const Use &) = delete;
	Use &operator=(const Use &) = delete;

	~Use()
	{
		if (!is_valid_)
			return;
		std::lock_guard<std::mutex> guard(life_.lock_);
		auto &requests = life_.waited_for_;
		if (request_)
			requests.erase(std::find(requests.begin(), requests.end(), request_));
		life_.users_--;
		life_.change_.notify_all();
	}

	explicit operator bool() const
	{
		return is_valid_;
	}

      private:
	Lifetime &life_;
	const Request request_;
	bool is_valid_ = false;
};

inline void Lifetime::end(Time until)
{
	/* A forked child has none of the threads that run its parent's calls. */
	if (is_inherited()) {
		rondo_comm_destroy(comm_);
		return;
	}
	if (!callbacks_here) {
		destroy(until);
		return;
	}
	std::lock_guard<std::mutex> guard(process->enders_lock);
	try {
		std::thread([life = shared_from_this(), until] {
			life->destroy(until);
			std::lock_guard<std::mutex> guard(process->enders_lock);
			process->enders--;
			process->enders_change.notify_all();
		}).detach();
		process->enders++;
	} catch (const std::system_error &) {
		rondo_comm_revoke(comm_, "it has no thread that leaves");
	}
}

/* Receives alone can be cancelled. Unlike a revocation, this does not end the others' calls. */
inline void Lifetime::cancel_receives()
{
	std::vector<Request> waited_for;

	{
		std::lock_guard<std::mutex> guard(lock_);
		ends_ = true;
		waited_for = waited_for_;
	}
	for (const Request &request : waited_for)
		rondo_request_cancel(request.get());
}

inline bool Lifetime::wait_until_unused(Time until)
{
	std::unique_lock<std::mutex> guard(lock_);

	return change_.wait_until(guard, until, [this] { return !calls_ && !users_; });
}

inline void Lifetime::destroy(Time until)
{
	cancel_receives();
	if (!wait_until_unused(until))
		rondo_comm_revoke(comm_, "it left with calls under way");
	{
		std::unique_lock<std::mutex> guard(lock_);
		change_.wait(guard, [this] { return !users_; });
	}
	rondo_comm_destroy(comm_);
}

/* Waits for the ends that callbacks have begun, until the time. */
inline void wait_for_enders(Time until)
{
	std::unique_lock<std::mutex> guard(process->enders_lock);

	process->enders_change.wait_until(guard, until, [] { return !process->enders; });
}

} // namespace rondo_torch

#endif
