/* A complex number is two floats, as which sums and means treat it. */
#ifndef RD_PARTS_H
#define RD_PARTS_H

#include <stddef.h>

#include "rondo.h"

/* The type of the parts of a type's elements, whose number is *count; else the type itself. */
static inline rondo_type rd_parts_of(rondo_type type, size_t *count)
{
	if (type != RONDO_COMPLEX64 && type != RONDO_COMPLEX128)
		return type;
	*count *= 2;
	return type == RONDO_COMPLEX64 ? RONDO_F32 : RONDO_F64;
}

#endif
