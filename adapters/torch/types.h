#ifndef RONDO_TORCH_TYPES_H
#define RONDO_TORCH_TYPES_H

/* torch's types, operations and errors in Rondo's names. */

#include <ATen/ATen.h>
#include <rondo.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <stdexcept>
#include <string>

namespace rondo_torch
{

/* A RuntimeError of Python's, with the reason that the library gave to this thread. */
class Error : public std::runtime_error
{
      public:
	Error(int code, const std::string &reason) : std::runtime_error(reason), code(code)
	{
	}

	const int code;
};

/* Programs look for the word timeout, also between blanks. */
inline Error last_error(int code)
{
	const char *prefix = code == RONDO_TIMEOUT ? "a timeout ended the call: " : "";

	return Error(code, prefix + std::string(rondo_last_error()));
}

inline void check(int code)
{
	if (code < 0)
		throw last_error(code);
}

/* A type of torch: `width` elements of Rondo's type make one. */
struct Type {
	at::ScalarType torch;
	rondo_type rondo;
	size_t width;
};

/* Half complex numbers add as pairs do. */
constexpr Type types[] = {
	{ at::kFloat, RONDO_F32, 1 },
	{ at::kDouble, RONDO_F64, 1 },
	{ at::kHalf, RONDO_F16, 1 },
	{ at::kBFloat16, RONDO_BF16, 1 },
	{ at::kChar, RONDO_I8, 1 },
	{ at::kByte, RONDO_U8, 1 },
	{ at::kShort, RONDO_I16, 1 },
	{ at::kInt, RONDO_I32, 1 },
	{ at::kLong, RONDO_I64, 1 },
	{ at::kBool, RONDO_BOOL, 1 },
	{ at::kComplexHalf, RONDO_F16, 2 },
	{ at::kComplexFloat, RONDO_COMPLEX64, 1 },
	{ at::kComplexDouble, RONDO_COMPLEX128, 1 },
};

inline const Type *find_type(at::ScalarType torch)
{
	for (const Type &type : types)
		if (type.torch == torch)
			return &type;
	return nullptr;
}

/* For calls that move elements alone: types that Rondo does not have travel as bytes. */
inline Type moved_type(const at::Tensor &tensor)
{
	const Type *type = find_type(tensor.scalar_type());

	return type ? *type : Type{ tensor.scalar_type(), RONDO_U8, tensor.dtype().itemsize() };
}

inline rondo_op op_of(c10d::ReduceOp::RedOpType op)
{
	switch (op) {
	case c10d::ReduceOp::SUM:
		return RONDO_SUM;
	case c10d::ReduceOp::AVG:
		return RONDO_AVG;
	case c10d::ReduceOp::PRODUCT:
		return RONDO_PROD;
	case c10d::ReduceOp::MIN:
		return RONDO_MIN;
	case c10d::ReduceOp::MAX:
		return RONDO_MAX;
	case c10d::ReduceOp::BAND:
		return RONDO_BAND;
	case c10d::ReduceOp::BOR:
		return RONDO_BOR;
	case c10d::ReduceOp::BXOR:
		return RONDO_BXOR;
	default:
		throw Error(RONDO_INVALID, "rondo: unknown ReduceOp");
	}
}

inline const char *op_name(c10d::ReduceOp::RedOpType op)
{
	constexpr const char *names[] = { "SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR",
		"BXOR", "PREMUL_SUM" };

	return op < sizeof(names) / sizeof(*names) ? names[op] : "?";
}

/* PREMUL_SUM is not here: it needs a factor. */
inline rondo_op find_op(c10d::ReduceOp::RedOpType op, const Type &type)
{
	rondo_op found = op_of(op);
	bool is_for_pairs = found == RONDO_SUM || found == RONDO_AVG;

	if (!rondo_op_applies(found, type.rondo) || (type.width == 2 && !is_for_pairs))
		throw Error(RONDO_INVALID,
			c10::str("Cannot use ReduceOp.", op_name(op), " with ", type.torch));
	return found;
}

} // namespace rondo_torch

#endif
