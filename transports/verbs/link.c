#include "transports/verbs/link.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "transports/verbs/endpoint.h"

/* Longer messages gain nothing, and a ring holds several. */
#define MESSAGE_MOST (1 << 20)

size_t rd_verbs_message_max(const struct rd_settings *settings)
{
	return settings->piece_size < MESSAGE_MOST ? settings->piece_size : MESSAGE_MOST;
}

void rd_verbs_link_fail(struct rd_verbs_link *link, int error, const char *format, ...)
{
	va_list args;

	if (link->base.error)
		return;
	link->base.error = error;
	va_start(args, format);
	vsnprintf(link->base.reason, sizeof(link->base.reason), format, args);
	va_end(args);
	if (!link->base.ready)
		link->endpoint->unfinished--;
}

static int map_memory(struct rd_verbs_link *link)
{
	const struct rd_settings *settings = link->endpoint->local->settings;

	link->size = rd_verbs_ring_of(settings->slots, link->base.message_max);
	link->memory_size = sizeof(struct rd_verbs_landing) + 2 * link->size.size;
	link->memory = mmap(NULL, link->memory_size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (link->memory == MAP_FAILED) {
		link->memory = NULL;
		return rd_fail(
			RONDO_MEMORY, "no memory for a verbs link to rank %d", link->base.peer);
	}
	link->in.ring = (char *)link->memory + sizeof(struct rd_verbs_landing);
	link->out.ring = link->in.ring + link->size.size;
	return 0;
}

static int make_rails(struct rd_verbs_link *link)
{
	struct rd_verbs_endpoint *endpoint = link->endpoint;
	int err = 0;

	for (int i = 0; i < link->rails && !err; i++) {
		struct rd_verbs_rail *rail = &endpoint->rails[i];

		if (rail->room < RD_VERBS_COMPLETIONS)
			return rd_fail(RONDO_MEMORY,
				"%s has no completions for another link (its limit is %d; fewer "
				"RONDO_CHANNELS need fewer)",
				rail->port.device, rail->device->limits.max_cqe);
		err = rd_verbs_register(
			rail->device, link->memory, link->memory_size, &link->regions[i]);
		if (!err)
			err = rd_verbs_queue_pair_create(&link->pairs[i], rail, link);
		if (!err)
			rail->room -= RD_VERBS_COMPLETIONS;
	}
	return err;
}

struct rd_verbs_link *rd_verbs_link_create(
	struct rd_verbs_endpoint *endpoint, int peer, int channel, int *err)
{
	struct rd_verbs_link *link = calloc(1, sizeof(*link));
	size_t rails = (size_t)endpoint->rail_count;

	*err = RONDO_MEMORY;
	if (!link) {
		rd_fail(RONDO_MEMORY, "no memory for a verbs link to rank %d", peer);
		return NULL;
	}
	link->base = (struct rd_link){
		.transport = endpoint->base.transport,
		.peer = peer,
		.channel = channel,
		.message_max = endpoint->base.message_max,
		.send_min = SIZE_MAX,
	};
	link->endpoint = endpoint;
	link->wire = (struct rd_wire)RD_WIRE(-1);
	link->rails = endpoint->rail_count;
	link->pairs = calloc(rails, sizeof(*link->pairs));
	link->peers = calloc(rails, sizeof(*link->peers));
	link->regions = calloc(rails, sizeof(struct ibv_mr *));
	if (link->pairs && link->peers && link->regions)
		*err = map_memory(link);
	else
		rd_fail(RONDO_MEMORY, "no memory for a verbs link to rank %d", peer);
	if (!*err)
		*err = make_rails(link);
	if (*err) {
		rd_verbs_link_destroy(link);
		return NULL;
	}
	link->next = endpoint->links;
	endpoint->links = link;
	endpoint->unfinished++;
	return link;
}

static void free_memory(struct rd_verbs_link *link)
{
	if (link->memory)
		munmap(link->memory, link->memory_size);
	rd_wire_close(&link->wire);
	free(link->pairs);
	free(link->peers);
	free(link->regions);
	free(link);
}

void rd_verbs_link_destroy(struct rd_verbs_link *link)
{
	for (int i = 0; link->pairs && i < link->rails; i++)
		rd_verbs_queue_pair_destroy(&link->pairs[i]);
	for (int i = 0; link->regions && i < link->rails; i++)
		if (link->regions[i])
			rd_verbs.dereg_mr(link->regions[i]);
	free_memory(link);
}

void rd_verbs_link_abandon(struct rd_verbs_link *link)
{
	free_memory(link);
}
