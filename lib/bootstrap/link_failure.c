#include "bootstrap/link_failure.h"

#include <stdlib.h>
#include <string.h>

bool rd_link_failures_add(
	struct rd_link_failures *link_failures, const struct rd_link_failure *link_failure)
{
	if (link_failures->count == link_failures->capacity) {
		int capacity = link_failures->capacity ? 2 * link_failures->capacity : 8;
		struct rd_link_failure *at =
			realloc(link_failures->at, (size_t)capacity * sizeof(*at));

		if (!at)
			return false;
		link_failures->at = at;
		link_failures->capacity = capacity;
	}
	link_failures->at[link_failures->count++] = *link_failure;
	return true;
}

void rd_link_failures_finish(struct rd_link_failures *link_failures)
{
	free(link_failures->at);
	*link_failures = (struct rd_link_failures){ 0 };
}

bool rd_link_failures_have(
	const struct rd_link_failures *link_failures, const struct rd_link_failure *link_failure)
{
	for (int i = 0; i < link_failures->count; i++) {
		const struct rd_link_failure *other = &link_failures->at[i];

		if (other->low == link_failure->low && other->high == link_failure->high &&
			other->tagged == link_failure->tagged &&
			strcmp(other->transport, link_failure->transport) == 0)
			return true;
	}
	return false;
}
