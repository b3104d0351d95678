#include "bootstrap/shrink/state.h"

#include <stdio.h>

void rd_shrink_place(const struct rd_shrink *shrink, int rank, struct rd_settings *settings)
{
	const struct rd_lineage_address *place = &shrink->members[rank].lineage;

	*settings = *shrink->settings;
	settings->rendezvous_fd = -1;
	settings->port = (int)place->port;
	if (place->address[0])
		snprintf(settings->address, sizeof(settings->address), "%s", place->address);
}
