#include "run/world.h"

#include <stdio.h>
#include <sys/random.h>

/* Nodes of one job need one id, and cannot exchange it: only a job of one node draws it. */
static void draw_run_id(struct world *world)
{
	unsigned char bits[16];

	snprintf(world->run_id, sizeof(world->run_id), "none");
	if (world->nodes > 1 || getrandom(bits, sizeof(bits), 0) != sizeof(bits))
		return;
	for (size_t i = 0; i < sizeof(bits); i++)
		snprintf(world->run_id + 2 * i, 3, "%02x", bits[i]);
}

void world_init(struct world *world, const struct options *options)
{
	*world = (struct world){
		.nodes = options->nodes,
		.node = options->node,
		.size = options->nodes * options->local_size,
		.first = options->node * options->local_size,
		.local_size = options->local_size,
		.port = options->port,
		.rondo_port = options->rondo_port,
	};
	if (options->address)
		snprintf(world->address, sizeof(world->address), "%s", options->address);
	if (options->run_id)
		snprintf(world->run_id, sizeof(world->run_id), "%s", options->run_id);
	else
		draw_run_id(world);
}
