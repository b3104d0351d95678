#include "transports/transports.h"

#include <string.h>

#include "base/error.h"

/* Loop comes first, though cost never chooses it: only its open() distinguishes a rank from its
   neighbours. */
const struct rd_transport *_Atomic rd_transports[RD_TRANSPORTS_KNOWN + 1] = {
	&rd_transport_loop,
	&rd_transport_shm,
	&rd_transport_tcp,
#ifdef RD_HAS_VERBS
	&rd_transport_verbs,
#endif
	NULL,
};

const struct rd_transport *rd_transport_find(const char *name)
{
	for (size_t i = 0; rd_transports[i]; i++)
		if (strcmp(rd_transports[i]->name, name) == 0)
			return rd_transports[i];
	return NULL;
}

int rd_transport_add(const struct rd_transport *transport)
{
	int count = 0;

	while (rd_transports[count])
		count++;
	if (count == RD_TRANSPORTS_KNOWN)
		return rd_fail(
			RONDO_UNSUPPORTED, "there is room for %d transports", RD_TRANSPORTS_KNOWN);
	rd_transports[count] = transport;
	return 0;
}
