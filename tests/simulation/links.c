/* The links of the data: the world's delays, cuts and flipped bits. */
#include "base/error.h"
#include "base/hash.h"
#include "world.h"

static uint64_t link_delay(void *context)
{
	struct world *world = context;

	return world_delay(world, world->jitter_ns);
}

static void add_event(void *context, enum link_event kind, int end, uint64_t at_ns)
{
	(void)context;
	sim_event(EVENT_LINK + (int)kind, end, at_ns);
}

/* A bit flips on the way: the message's checksum shows it. */
static const char *flip(void *context, const struct link_end *from, char *bytes, size_t size)
{
	struct world *world = context;
	int *flips = &world->flips[from->rank][from->link.peer];
	uint64_t sum;

	if (*flips == 0 || size == 0)
		return NULL;
	--*flips;
	sum = rd_hash(RD_HASH_INIT, bytes, size);
	bytes[draw(&sim.run, size)] ^= (char)(1u << draw(&sim.run, 8));
	return rd_hash(RD_HASH_INIT, bytes, size) != sum ? "a message came with a wrong checksum"
							 : NULL;
}

void links_open(struct world *world)
{
	world->links = (struct simulated_links){
		.size = world->size,
		.channels = world->channels,
		.slots = world->slots,
		.piece_size = world->piece,
		.zero_copy = world->zero_copy,
		.latency_ns = world->latency_ns,
		.now_ns = &sim.now_ns,
		.context = world,
		.delay = link_delay,
		.add_event = add_event,
		.spoil = flip,
	};
	if (simulated_links_open(&world->links, NULL))
		sim_fail("%s", rondo_last_error());
}

void links_take_event(struct world *world, enum link_event kind, int end)
{
	const struct link_end *at = &world->links.ends[end];
	uint64_t until = sim_cut(at->rank, at->link.peer);

	if (until == NEVER)
		return;
	if (until)
		add_event(world, kind, end, until);
	else
		world_touch(world, simulated_links_take(&world->links, kind, end));
}
