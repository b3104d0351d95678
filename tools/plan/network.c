#include "network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "files.h"
#include "tuner/step_cost.h"

int network_links(struct network *network, int64_t count)
{
	if (count > NETWORK_LINKS_MAX)
		return rd_fail(
			RONDO_UNSUPPORTED, "the network has more than %d links", NETWORK_LINKS_MAX);
	network->links = calloc((size_t)count + 1, sizeof(*network->links));
	if (!network->links)
		return rd_fail(RONDO_MEMORY, "no memory for a network");
	network->link_count = (int)count;
	return 0;
}

int64_t network_bytes_ps(const struct network_link *link, uint64_t bytes)
{
	uint64_t mbps = (uint64_t)link->mbps, bit_ps = 8000000;

	/* A byte takes 8,000,000 / mbps ps. */
	return rd_ns_product(bytes / mbps, bit_ps) + (int64_t)(bytes % mbps * bit_ps / mbps);
}

int network_speed(struct network *network, const char *name, int64_t thousandths)
{
	struct rd_nearest nearest = RD_NEAREST(name);
	char meant[RD_NEAREST_TEXT];

	for (int i = 0; i < network->link_count; i++) {
		struct network_link *link = &network->links[i];

		rd_nearest_try(&nearest, link->name);
		if (strcmp(link->name, name) != 0)
			continue;
		link->mbps = rd_shorter(link->mbps * thousandths / 1000, NETWORK_MBPS_MAX);
		link->mbps = rd_longer(link->mbps, 1);
		return 0;
	}
	return rd_fail(RONDO_INVALID, "the network has no link '%s'%s", name,
		rd_nearest_text(&nearest, meant));
}

static int read_file(struct network *network, const char *path)
{
	char *text;
	size_t size;
	int err = file_read(path, RD_JSON_SIZE_MAX, &text, &size);

	if (!err)
		err = network_parse(network, path, text, size);
	free(text);
	return err;
}

int network_create(struct network **network_out, const char *text, int hosts)
{
	struct network *network = calloc(1, sizeof(*network));
	int is_shape = 0;

	*network_out = NULL;
	if (!network)
		return rd_fail(RONDO_MEMORY, "no memory for a network");

	int err = network_shape(network, text, hosts, &is_shape);

	if (!err && !is_shape)
		err = read_file(network, text);
	if (!err && network->hosts < hosts)
		err = rd_fail(RONDO_INVALID, "%s has room for %d hosts, not %d", text,
			network->hosts, hosts);
	if (err)
		network_destroy(network);
	else
		*network_out = network;
	return err;
}

void network_destroy(struct network *network)
{
	if (!network)
		return;
	free(network->links);
	free(network->firsts);
	free(network->hops);
	free(network);
}
