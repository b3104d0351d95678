#include "bootstrap/lineage.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

void rd_lineage_place(struct rd_lineage *lineage, const struct rd_listener *listener, int origin)
{
	struct rd_lineage_address *place = &lineage->place;

	place->group_port = listener->port;
	if (lineage->id)
		return;
	place->origin = origin;
	place->port = listener->port;
	memcpy(place->address, listener->address, sizeof(place->address));
}

int rd_lineage_begin(
	struct rd_lineage *lineage, uint64_t id, struct rd_listener *listener, int most)
{
	lineage->id = id;
	lineage->arrivals = rd_arrivals_open(listener, id, most);
	return lineage->arrivals ? 0 : RONDO_MEMORY;
}

void rd_lineage_join(struct rd_lineage *lineage, const struct rd_lineage *of)
{
	*lineage = (struct rd_lineage){
		.id = of->id, .place = of->place, .arrivals = rd_arrivals_share(of->arrivals)
	};
}

void rd_lineage_end(struct rd_lineage *lineage)
{
	rd_arrivals_release(lineage->arrivals);
	lineage->arrivals = NULL;
}

void rd_lineage_meet(struct rd_settings *settings, const struct rd_lineage_address *place)
{
	settings->rendezvous_fd = -1;
	settings->port = (int)place->port;
	if (place->address[0])
		snprintf(settings->address, sizeof(settings->address), "%s", place->address);
}
