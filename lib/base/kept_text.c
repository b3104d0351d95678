#include "base/kept_text.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct kept {
	const struct kept *next;
	char text[];
};

/* Texts are added in front, and none is taken out: no lock, which a fork could leave locked. */
static const struct kept *_Atomic newest;

const char *rd_kept_text(const char *text)
{
	const struct kept *first = atomic_load(&newest), *same = first;
	size_t size = strlen(text) + 1;
	struct kept *added;

	while (same && strcmp(same->text, text) != 0)
		same = same->next;
	if (same)
		return same->text;
	added = malloc(sizeof(*added) + size);
	if (!added) {
		rd_fail(RONDO_MEMORY, "no memory for a setting's text");
		return NULL;
	}
	memcpy(added->text, text, size);
	do
		added->next = first;
	while (!atomic_compare_exchange_weak(&newest, &first, added));
	return added->text;
}
