#include <stdbool.h>

#include "rondo.h"

/* Switches, not arrays: a caller may pass any number as a type. */

size_t rondo_type_size(rondo_type type)
{
	switch (type) {
#define SIZE_CASE(name, ctype, text) \
	case name: \
		return sizeof(ctype);
		RONDO_TYPES(SIZE_CASE)
#undef SIZE_CASE
	case RONDO_TYPE_COUNT:
		break;
	}
	return 0;
}

const char *rondo_type_name(rondo_type type)
{
	switch (type) {
#define NAME_CASE(name, ctype, text) \
	case name: \
		return text;
		RONDO_TYPES(NAME_CASE)
#undef NAME_CASE
	case RONDO_TYPE_COUNT:
		break;
	}
	return "?";
}

static bool is_float(rondo_type type)
{
	switch (type) {
	case RONDO_F16:
	case RONDO_BF16:
	case RONDO_F32:
	case RONDO_F64:
	case RONDO_F8E4M3:
	case RONDO_F8E5M2:
		return true;
	default:
		return false;
	}
}

static bool is_complex(rondo_type type)
{
	return type == RONDO_COMPLEX64 || type == RONDO_COMPLEX128;
}

int rondo_op_applies(rondo_op op, rondo_type type)
{
	if ((unsigned)op >= RONDO_OP_COUNT || (unsigned)type >= RONDO_TYPE_COUNT)
		return 0;
	if (is_complex(type))
		return op == RONDO_SUM || op == RONDO_PROD || op == RONDO_AVG;
	if (type == RONDO_BOOL)
		return op != RONDO_AVG;
	return op <= RONDO_AVG || !is_float(type);
}

const char *rondo_op_name(rondo_op op)
{
	switch (op) {
#define NAME_CASE(name, text) \
	case name: \
		return text;
		RONDO_OPS(NAME_CASE)
#undef NAME_CASE
	default:
		break;
	}
	return "?";
}
