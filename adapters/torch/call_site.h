#ifndef RONDO_TORCH_CALL_SITE_H
#define RONDO_TORCH_CALL_SITE_H

/* The line of Python that makes a call, for errors: the innermost one outside torch. */

#include <torch/csrc/utils/pybind.h>

#include <map>
#include <string>
#include <utility>

namespace rondo_torch
{

/* The folder of torch's Python, with a slash. Set once, when the module begins: an import in a call
   may give the interpreter's lock to another thread's call, which would wait for the import. */
inline std::string *torch_folder;

inline void find_torch_folder()
{
	pybind11::object folders = pybind11::module_::import("torch").attr("__path__");

	torch_folder = new std::string(folders[pybind11::int_(0)].cast<std::string>() + "/");
}

/* Attributes of frames. Making their names at each call would take longer than the call's line. */
enum class Name { code, instruction, back };

inline pybind11::object get(const pybind11::object &frame, Name name)
{
	static PyObject *const names[] = { PyUnicode_InternFromString("f_code"),
		PyUnicode_InternFromString("f_lasti"), PyUnicode_InternFromString("f_back") };

	return pybind11::getattr(frame, names[static_cast<int>(name)]);
}

/* The text of a frame's line, empty for torch's own. Texts stay: the library may read them until
   the process ends. Codes stay, too, and so keep their addresses. */
inline const std::string &site_of(const pybind11::object &frame)
{
	static auto &sites = *new std::map<std::pair<PyObject *, int>, std::string>;
	pybind11::object code = get(frame, Name::code);
	auto [at, is_new] =
		sites.try_emplace({ code.ptr(), get(frame, Name::instruction).cast<int>() });

	if (is_new) {
		code.inc_ref();
		auto file = code.attr("co_filename").cast<std::string>();
		if (file.compare(0, torch_folder->size(), *torch_folder) != 0)
			at->second = file.substr(file.rfind('/') + 1) + ":" +
				     std::to_string(frame.attr("f_lineno").cast<int>());
	}
	return at->second;
}

/* Without the interpreter's lock. Threads that have run no Python have no line. */
inline const char *call_site()
{
	constexpr const char *none = "torch.distributed";

	if (!PyGILState_GetThisThreadState())
		return none;
	pybind11::gil_scoped_acquire acquired;
	try {
		auto frame = pybind11::reinterpret_borrow<pybind11::object>(
			reinterpret_cast<PyObject *>(PyEval_GetFrame()));
		for (; frame && !frame.is_none(); frame = get(frame, Name::back)) {
			const std::string &site = site_of(frame);
			if (!site.empty())
				return site.c_str();
		}
	} catch (std::exception &) {
		/* The call goes on without its line. */
	}
	return none;
}

} // namespace rondo_torch

#endif
