/* Control connections: bytes in fragments, with a bounded number of them under way. */
#ifndef SIMULATION_WIRE_H
#define SIMULATION_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "simulated_pipe.h"

#define RANKS_MAX 8
#define WIRES_MAX 48

struct world;
struct sim_rank;

enum wire_state { WIRE_FREE, WIRE_TRYING, WIRE_WAITING, WIRE_ACCEPTED, WIRE_CLOSED };

struct wire {
	enum wire_state state; /* at rank 0 */
	int owner; /* a rank; -1: a stranger */
	int index; /* at the coordinator; -1: none */
	bool here, there; /* open at the rank; at rank 0's host */
	struct pipe up, down;
};

/* The rank begins to connect. */
void wire_connect(struct world *world, struct sim_rank *rank);
/* A connection of no rank, which sends these bytes. */
void wire_intrude(struct world *world, const unsigned char *bytes, size_t size);
/* Rank 0: accepts, reads and writes. */
void wire_serve_coordinator(struct world *world);
/* Another rank: reads and writes. */
void wire_serve_rank(struct world *world, struct sim_rank *rank);
/* The rank's end closes: with this errno; 0: as its kernel does at its exit. */
void wire_close(struct world *world, struct sim_rank *rank, int error);
/* All of rank 0's ends close. */
void wire_close_coordinator(struct world *world);
void wire_reset(struct world *world, struct sim_rank *rank);
/* EVENT_ATTEMPT, EVENT_CONNECTED, EVENT_REFUSED, EVENT_PACKET */
void wire_take_event(struct world *world, int kind, int subject);

#endif
