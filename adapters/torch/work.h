#ifndef RONDO_TORCH_WORK_H
#define RONDO_TORCH_WORK_H

/* A call of torch's: a request of Rondo's, the tensors that it uses, and what waits for it. */

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "lifetime.h"
#include "types.h"

namespace rondo_torch
{

/* Before all locks of a group, or a work. */
inline void check_process(const Lifetime &life)
{
	if (life.is_inherited())
		throw Error(RONDO_INVALID,
			"rondo: the process that forked this one alone may use its process group");
}

class Work : public c10d::Work
{
      public:
	Work(int rank, c10d::OpType type, const char *title, const std::vector<at::Tensor> &inputs);

	/* Addresses of a tensor's elements, which stay valid until the call's end. Tensors whose
	   elements do not follow each other are copied: inputs now, outputs at the call's end. */
	const void *input(const at::Tensor &tensor);
	void *output(const at::Tensor &tensor);
	void *in_place(const at::Tensor &tensor);
	/* At the call's end others get the elements of a tensor, which may be one of them. */
	void copy_later(const at::Tensor &from, const std::vector<at::Tensor> &others);

	/* Sets what result() and the future's value are. */
	void give(std::vector<at::Tensor> tensors);
	void give_lists(std::vector<std::vector<at::Tensor>> lists);

	/* Takes a request, and starts it. The end of the communicator waits for calls alone. */
	void start(const std::shared_ptr<Lifetime> &life, rondo_request *request, bool is_call);
	/* Waits without a bound of their own wait for no longer. For messages, which have none. */
	void bound(int most_ms)
	{
		most_ms_ = most_ms;
	}
	/* Ends a work whose calls have run already. */
	void end();

	bool isCompleted() override;
	bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
	std::vector<at::Tensor> result() override;
	int sourceRank() const override;
	c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

      private:
	struct Copy {
		at::Tensor to, from;
	};

	static void done(void *argument, int error);
	bool wait_for_request(int most_ms);
	void complete(std::exception_ptr failure);
	void copy_back();

	std::shared_ptr<Lifetime> life_;
	Request request_;
	bool is_call_ = false;
	int most_ms_ = -1;
	std::vector<at::Tensor> used_;
	std::vector<Copy> copies_, later_copies_;
	std::vector<at::Tensor> tensors_;
	c10::IValue value_;
	c10::intrusive_ptr<c10::ivalue::Future> future_;
};

inline c10::optional<std::vector<at::Tensor>> profiled(const std::vector<at::Tensor> &inputs)
{
	if (inputs.empty())
		return c10::nullopt;
	return inputs;
}

inline Work::Work(
	int rank, c10d::OpType type, const char *title, const std::vector<at::Tensor> &inputs)
    : c10d::Work(rank, type, title, profiled(inputs)), value_(tensors_)
{
}

inline const void *Work::input(const at::Tensor &tensor)
{
	used_.push_back(tensor.resolve_conj().resolve_neg().contiguous());
	return used_.back().data_ptr();
}

inline void *Work::output(const at::Tensor &tensor)
{
	bool plain = tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();

	used_.push_back(plain ? tensor : at::empty(tensor.sizes(), tensor.options()));
	if (!plain)
		copies_.push_back({ tensor, used_.back() });
	return used_.back().data_ptr();
}

inline void *Work::in_place(const at::Tensor &tensor)
{
	used_.push_back(tensor.resolve_conj().resolve_neg().contiguous());
	if (!used_.back().is_same(tensor))
		copies_.push_back({ tensor, used_.back() });
	return used_.back().data_ptr();
}

inline void Work::copy_later(const at::Tensor &from, const std::vector<at::Tensor> &others)
{
	for (const at::Tensor &other : others)
		if (!other.is_same(from))
			later_copies_.push_back({ other, from });
}

inline void Work::give(std::vector<at::Tensor> tensors)
{
	tensors_ = std::move(tensors);
	value_ = tensors_;
	future_ = c10::make_intrusive<c10::ivalue::Future>(
		c10::ListType::create(c10::TensorType::get()));
}

/* As gloo's: a list for one input, else a list of lists. */
inline void Work::give_lists(std::vector<std::vector<at::Tensor>> lists)
{
	if (lists.size() == 1) {
		give(std::move(lists[0]));
		return;
	}
	for (const auto &list : lists)
		tensors_.insert(tensors_.end(), list.begin(), list.end());
	value_ = lists;
	future_ = c10::make_intrusive<c10::ivalue::Future>(
		c10::ListType::create(c10::ListType::create(c10::TensorType::get())));
}

inline void Work::start(const std::shared_ptr<Lifetime> &life, rondo_request *request, bool is_call)
{
	life_ = life;
	request_ = Request(request, rondo_request_destroy);
	is_call_ = is_call;
	if (is_call)
		life->call_began();
	/* done() has a reference of its own: nobody need keep the work. */
	c10::raw::intrusive_ptr::incref(this);
	int error = rondo_request_start(request, done, this);
	if (error) {
		auto own = c10::intrusive_ptr<Work>::reclaim(this);
		if (is_call)
			life->call_ended();
		throw last_error(error);
	}
}

inline void Work::end()
{
	complete(nullptr);
}

/* In the thread that waits, or in one of the library's. */
inline void Work::done(void *argument, int error)
{
	auto work = c10::intrusive_ptr<Work>::reclaim(static_cast<Work *>(argument));
	std::exception_ptr failure;

	callbacks_here++;
	try {
		check(error);
		work->copy_back();
	} catch (...) {
		failure = std::current_exception();
	}
	if (work->is_call_)
		work->life_->call_ended();
	work->complete(failure);
	work.reset();
	callbacks_here--;
}

/* Modes of Python, which the waiting thread may be in, must not see these copies. */
inline void Work::copy_back()
{
	if (copies_.empty() && later_copies_.empty())
		return;
	at::AutoDispatchBelowADInplaceOrView below;
	c10::impl::ExcludeDispatchKeyGuard no_python(c10::DispatchKeySet(
		{ c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot }));
	for (const auto *copies : { &copies_, &later_copies_ })
		for (const Copy &copy : *copies)
			copy.to.copy_(copy.from);
}

inline void Work::complete(std::exception_ptr failure)
{
	finish(failure);
	/* Callbacks may drop the last reference to this work. */
	auto future = future_;
	if (failure)
		future->setError(failure);
	else
		future->markCompleted(value_);
}

/* The request is done a moment later than the work, of which callbacks see the end. */
inline bool Work::isCompleted()
{
	if (life_)
		check_process(*life_);
	if (c10d::Work::isCompleted())
		return true;
	Use use(*life_);
	return use && rondo_request_test(request_.get()) <= 0;
}

/* Whether it is done in time. */
inline bool Work::wait_for_request(int most_ms)
{
	{
		Use use(*life_, request_);
		if (use) {
			if (rondo_request_wait(request_.get(), most_ms) != RONDO_PENDING)
				return true;
			/* A receive takes no message once its wait has failed. */
			rondo_request_cancel(request_.get());
			return false;
		}
	}
	/* The end of the communicator ends it. */
	std::unique_lock<std::mutex> guard(mutex_);
	auto is_done = [this] { return completed_; };
	if (most_ms >= 0)
		return cv_.wait_for(guard, std::chrono::milliseconds(most_ms), is_done);
	cv_.wait(guard, is_done);
	return true;
}

inline bool Work::wait(std::chrono::milliseconds timeout)
{
	bool has_timeout = timeout > kNoTimeout && timeout.count() <= INT_MAX;
	int most_ms = has_timeout ? timeout.count() : most_ms_;

	if (life_)
		check_process(*life_);
	if (!c10d::Work::isCompleted() && !wait_for_request(most_ms))
		throw Error(RONDO_TIMEOUT,
			"a timeout of " + std::to_string(most_ms) + " ms ended this wait");
	if (auto failure = exception())
		std::rethrow_exception(failure);
	return true;
}

/* Python asks once it has waited. */
inline int Work::sourceRank() const
{
	int rank;

	check(rondo_request_source(request_.get(), &rank, nullptr));
	return rank;
}

inline std::vector<at::Tensor> Work::result()
{
	return tensors_;
}

inline c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture()
{
	return future_;
}

} // namespace rondo_torch

#endif
