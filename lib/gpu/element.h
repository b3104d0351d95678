/*
 * Elements without kernels of their own on devices: bools are u8 there, under logical operations,
 * and complex numbers are their parts. Products of complex numbers go through host memory.
 */
#ifndef RD_GPU_ELEMENT_H
#define RD_GPU_ELEMENT_H

#include "exec/call.h"
#include "exec/parts.h"

static inline rondo_op rd_gpu_logical_op(rondo_op op)
{
	switch (op) {
	case RONDO_SUM:
	case RONDO_MAX:
	case RONDO_BOR:
		return RONDO_LOR;
	case RONDO_PROD:
	case RONDO_MIN:
	case RONDO_BAND:
		return RONDO_LAND;
	case RONDO_BXOR:
		return RONDO_LXOR;
	default:
		return op;
	}
}

/* Whether no kernel on a device has the type of a call. */
static inline bool rd_gpu_lacks_type(const struct rd_call *call)
{
	return call->type >= RONDO_BOOL;
}

/* Replaces the type of a call by one that has kernels, where that gives the same result. Where it
   has done so before, nothing changes. */
static inline void rd_gpu_replace_type(struct rd_call *call)
{
	bool reduces = rd_collective_reduces(call->problem.collective);

	/* The program's function gets the type that it was called with. */
	if (call->user_op)
		return;
	if (call->type == RONDO_BOOL) {
		call->type = RONDO_U8;
		call->op = reduces ? rd_gpu_logical_op(call->op) : call->op;
	} else if (!reduces || call->op != RONDO_PROD) {
		call->type = rd_parts_of(call->type, &call->count);
	}
}

#endif
