#include "exec/user_op.h"

#include <stdlib.h>

struct rd_user_op *rd_user_op_copy(const struct rd_user_op *op)
{
	struct rd_user_op *copy = malloc(sizeof(*copy));

	if (copy)
		*copy = *op;
	return copy;
}

void rd_user_op_destroy(struct rd_user_op *op)
{
	if (!op)
		return;
	free(op->scaled);
	free(op);
}
