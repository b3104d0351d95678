/*
 * The links of the data, with all the freedom of the transport contract: they read the sender's
 * memory as late as possible, write to the receiver's early, and overwrite room that is released.
 */
#ifndef SIMULATION_LINKS_H
#define SIMULATION_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "rondo/transport.h"

#define SIM_CHANNELS 2
#define SIM_SLOTS 4
#define SIM_PIECE 512
#define SIM_NOISE 0xa5
#define SIM_ENDS (8 * 8 * SIM_CHANNELS)

struct world;

enum link_event { LINK_ARRIVAL, LINK_SENT, LINK_ROOM, LINK_CLOSE };

struct sim_message {
	unsigned char bytes[SIM_PIECE] __attribute__((aligned(16)));
	size_t size;
	struct rd_tag tag;
	const void *from; /* the sender's memory, not read yet */
	void *landed; /* in the receiver's memory */
	bool flipped;
};

struct link_end {
	struct rd_link link; /* first: links are cast to ends */
	struct world *world;
	int number, rank;
	struct link_end *other;
	bool closed; /* here */
	bool gone; /* the peer's end is closed */
	bool severed;
	const char *why; /* the reason for it */
	uint64_t sent, arrived, released, returned; /* each at most the one before */
	uint64_t last_ns;
	void *into; /* for the next message */
	size_t into_size;
	struct sim_message messages[SIM_SLOTS];
};

struct link_world {
	struct link_end ends[SIM_ENDS]; /* [(rank * 8 + peer) * SIM_CHANNELS + channel] */
	struct rd_link *of[8][8 * SIM_CHANNELS]; /* by rank: [peer * channels + channel] */
};

/* Links between all ranks of the world. */
void links_open(struct world *world);
void links_take_event(struct world *world, int subject);
/* All ends of this rank close; peers see it after the messages that were sent. */
void links_close(struct world *world, int rank);
/* The link between these two breaks, at both ends. */
void links_sever(struct world *world, int a, int b);

#endif
