/* Control connections of the ranks to rank 0, over simulated sockets. */
#ifndef SIMULATION_WIRE_H
#define SIMULATION_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "sockets.h"

#define RANKS_MAX 8
#define WIRES_MAX 256

struct world;
struct sim_rank;

/* Rank 0's end of a connection. */
struct wire {
	int socket;
	bool accepted;
	int index; /* at the coordinator; -1: none */
};

/* No rank has a connection. */
void wire_begin(struct world *world);
/* A connection of no rank, which sends these bytes. */
void wire_intrude(const unsigned char *bytes, size_t size);
/* Rank 0: accepts, reads and writes. */
void wire_serve_coordinator(struct world *world);
/* Another rank: connects, reads and writes. */
void wire_serve_rank(struct sim_rank *rank);
/* The rank's end closes: with this errno; 0: as its kernel does at its exit. */
void wire_close(struct sim_rank *rank, int error);
/* All of rank 0's ends close. */
void wire_close_coordinator(struct world *world);
void wire_reset(struct sim_rank *rank);

#endif
