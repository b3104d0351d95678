#include "elements.h"

#include <float.h>
#include <string.h>

#include "exec/f8.h"
#include "exec/half.h"

bool element_is_float(rondo_type type)
{
	return !rondo_op_applies(RONDO_BAND, type);
}

int element_parts(rondo_type type)
{
	return type == RONDO_COMPLEX64 || type == RONDO_COMPLEX128 ? 2 : 1;
}

rondo_type element_part(rondo_type type)
{
	return type == RONDO_COMPLEX64 ? RONDO_F32 : type == RONDO_COMPLEX128 ? RONDO_F64 : type;
}

void element_store(void *at, rondo_type type, uint64_t integer, double real)
{
	float f = (float)real;
	uint16_t half;

	switch (type) {
	case RONDO_COMPLEX64:
	case RONDO_COMPLEX128:
		memset(at, 0, rondo_type_size(type));
		element_store(at, element_part(type), integer, real);
		return;
	case RONDO_F64:
		memcpy(at, &real, 8);
		return;
	case RONDO_F32:
		memcpy(at, &f, 4);
		return;
	case RONDO_F16:
	case RONDO_BF16:
		half = type == RONDO_F16 ? f16_narrow(f) : bf16_narrow(f);
		memcpy(at, &half, 2);
		return;
	case RONDO_F8E4M3:
	case RONDO_F8E5M2:
		*(uint8_t *)at = type == RONDO_F8E4M3 ? f8e4m3_narrow(f) : f8e5m2_narrow(f);
		return;
	default:
		memcpy(at, &integer, rondo_type_size(type));
	}
}

double element_float(const void *at, rondo_type type)
{
	double real;
	float f;
	uint16_t half;

	switch (element_part(type)) {
	case RONDO_F64:
		memcpy(&real, at, 8);
		return real;
	case RONDO_F32:
		memcpy(&f, at, 4);
		return f;
	case RONDO_F8E4M3:
		return f8e4m3_widen(*(const uint8_t *)at);
	case RONDO_F8E5M2:
		return f8e5m2_widen(*(const uint8_t *)at);
	default:
		memcpy(&half, at, 2);
		return type == RONDO_F16 ? f16_widen(half) : bf16_widen(half);
	}
}

struct element_limits element_limits(rondo_type type)
{
	switch (type) {
	case RONDO_F16:
		return (struct element_limits){ 65504, 0x1p-24, 11 };
	case RONDO_BF16:
		return (struct element_limits){ 0x1.fep127, 0x1p-133, 8 };
	case RONDO_F8E4M3:
		return (struct element_limits){ 448, 0x1p-9, 4 };
	case RONDO_F8E5M2:
		return (struct element_limits){ 57344, 0x1p-16, 3 };
	case RONDO_F32:
		return (struct element_limits){ FLT_MAX, 0x1p-149, 24 };
	default:
		return (struct element_limits){ DBL_MAX, 0x1p-1074, 53 };
	}
}

uint64_t element_widen(uint64_t value, rondo_type type)
{
	switch (type) {
	case RONDO_I8:
		return (uint64_t)(int8_t)value;
	case RONDO_U8:
	case RONDO_BOOL:
		return (uint8_t)value;
	case RONDO_I16:
		return (uint64_t)(int16_t)value;
	case RONDO_U16:
		return (uint16_t)value;
	case RONDO_I32:
		return (uint64_t)(int32_t)value;
	case RONDO_U32:
		return (uint32_t)value;
	default:
		return value;
	}
}

uint64_t element_integer(const void *at, rondo_type type)
{
	uint64_t value = 0;

	memcpy(&value, at, rondo_type_size(type));
	return element_widen(value, type);
}

rondo_op element_bool_op(rondo_op op)
{
	switch (op) {
	case RONDO_PROD:
	case RONDO_MIN:
	case RONDO_BAND:
	case RONDO_LAND:
		return RONDO_LAND;
	case RONDO_BXOR:
	case RONDO_LXOR:
		return RONDO_LXOR;
	default:
		return RONDO_LOR;
	}
}

uint64_t element_combine_bits(rondo_op op, uint64_t a, uint64_t b)
{
	switch (op) {
	case RONDO_BAND:
		return a & b;
	case RONDO_BOR:
		return a | b;
	case RONDO_BXOR:
		return a ^ b;
	case RONDO_LAND:
		return a && b;
	case RONDO_LOR:
		return a || b;
	default:
		return !a != !b;
	}
}

double element_combine(rondo_op op, double a, double b)
{
	switch (op) {
	case RONDO_SUM:
	case RONDO_AVG:
		return a + b;
	case RONDO_PROD:
		return a * b;
	case RONDO_MIN:
		return a < b ? a : b;
	case RONDO_MAX:
		return a > b ? a : b;
	default:
		return (double)element_combine_bits(op, (uint64_t)a, (uint64_t)b);
	}
}
