/*
 * torch.distributed's backend "rondo", as a module of Python's. One file includes all others:
 * torch's headers take most of the time that a file takes to compile.
 */
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

#include "barriers.h"
#include "memory.h"
#include "messages.h"
#include "sparse.h"

namespace rondo_torch
{

/* Destroying a group waits. Threads that it waits for may need the interpreter's lock. */
template <typename T> class Holder
{
      public:
	Holder() = default;
	explicit Holder(T *object) : object_(c10::intrusive_ptr<T>::unsafe_steal_from_new(object))
	{
	}
	Holder(c10::intrusive_ptr<T> object) : object_(std::move(object))
	{
	}
	Holder(const Holder &) = default;
	Holder(Holder &&) = default;
	Holder &operator=(const Holder &) = default;
	Holder &operator=(Holder &&) = default;

	~Holder()
	{
		if (!object_)
			return;
		if (PyGILState_Check()) {
			pybind11::gil_scoped_release release;
			object_.reset();
		} else {
			object_.reset();
		}
	}

	T *get() const
	{
		return object_.get();
	}
	T &operator*() const
	{
		return *object_;
	}
	T *operator->() const
	{
		return object_.get();
	}

      private:
	c10::intrusive_ptr<T> object_;
};

static c10::intrusive_ptr<Group> create(const c10::intrusive_ptr<c10d::Store> &store, int rank,
	int size, std::chrono::milliseconds timeout, const Group *parent,
	const std::vector<int> &ranks)
{
	c10::intrusive_ptr<Group> kept;

	if (parent)
		kept = c10::intrusive_ptr<Group>::unsafe_reclaim_from_nonowning(
			const_cast<Group *>(parent));
	return Group::create(store, rank, size, timeout, kept, ranks);
}

} // namespace rondo_torch

PYBIND11_DECLARE_HOLDER_TYPE(T, rondo_torch::Holder<T>, true)

namespace py = pybind11;
using namespace rondo_torch;

PYBIND11_MODULE(_C, module)
{
	renew_in_children();
	find_torch_folder();
	py::object base = py::module_::import("torch._C._distributed_c10d")
#if TORCH_VERSION_MAJOR >= 2
				  .attr("Backend");
#else
				  .attr("ProcessGroup");
#endif
	py::class_<Group, Holder<Group>>(module, "ProcessGroupRondo", base);
	module.def("create", &create, py::call_guard<py::gil_scoped_release>());
	module.def("leave", &leave, py::call_guard<py::gil_scoped_release>());
	module.def("leave_all", &leave_all, py::call_guard<py::gil_scoped_release>());
	module.def("use_memory", &use_memory);
	module.def("uses_memory", &uses_memory);

	/* It lives as long as the process: statics are destroyed after the interpreter. */
	static py::handle error = py::exception<Error>(module, "RondoError", PyExc_RuntimeError);
	error.inc_ref();
	py::register_exception_translator([](std::exception_ptr thrown) {
		try {
			std::rethrow_exception(thrown);
		} catch (const Error &reason) {
			py::object made = error(reason.what());
			made.attr("code") = reason.code;
			made.attr("name") = rondo_error_name(reason.code);
			PyErr_SetObject(error.ptr(), made.ptr());
		}
	});
}
