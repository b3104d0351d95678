#include "transports.h"

#include <string.h>

/* Loop comes first, though it is never chosen by cost: only its open() knows a rank from itself. */
#define TRANSPORTS(X) X(loop)

#define DECLARE(name) extern const struct rd_transport rd_transport_##name;
TRANSPORTS(DECLARE)

#define ENTRY(name) &rd_transport_##name,
const struct rd_transport *const rd_transports[] = { TRANSPORTS(ENTRY) NULL };

const struct rd_transport *rd_transport_find(const char *name)
{
	for (size_t i = 0; rd_transports[i]; i++)
		if (strcmp(rd_transports[i]->name, name) == 0)
			return rd_transports[i];
	return NULL;
}
