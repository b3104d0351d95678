#include "bootstrap/link_failure.h"

#include <stdlib.h>
#include <string.h>

bool rd_losses_add(struct rd_losses *losses, const struct rd_loss *loss)
{
	if (losses->count == losses->capacity) {
		int capacity = losses->capacity ? 2 * losses->capacity : 8;
		struct rd_loss *at = realloc(losses->at, (size_t)capacity * sizeof(*at));

		if (!at)
			return false;
		losses->at = at;
		losses->capacity = capacity;
	}
	losses->at[losses->count++] = *loss;
	return true;
}

void rd_losses_finish(struct rd_losses *losses)
{
	free(losses->at);
	*losses = (struct rd_losses){ 0 };
}

bool rd_losses_have(const struct rd_losses *losses, const struct rd_loss *loss)
{
	for (int i = 0; i < losses->count; i++) {
		const struct rd_loss *other = &losses->at[i];

		if (other->low == loss->low && other->high == loss->high &&
			strcmp(other->transport, loss->transport) == 0)
			return true;
	}
	return false;
}
