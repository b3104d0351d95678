/* The faults of one run: a list, drawn from the seed or written by a user. */
#ifndef SIMULATION_FAULTS_H
#define SIMULATION_FAULTS_H

#include <stdbool.h>
#include <stddef.h>

#include "draw.h"

#define FAULTS_MAX 12
#define FAULTS_TEXT 512

/* X(kind, numbers it takes, whether it strikes at an event; others hold from the start) */
#define FAULT_KINDS(X) \
	X(kill, 1, true) /* rank: dies, and its sockets close */ \
	X(vanish, 1, true) /* rank: its host is gone, and nothing closes */ \
	X(pause, 2, true) /* rank, ms (0: for good): SIGSTOP */ \
	X(partition, 2, true) /* bits of ranks, ms (0: for good): these and the others are cut */ \
	X(reset, 1, true) /* rank: its control connection breaks */ \
	X(reject, 2, true) /* bits of ranks, ms: between hosts, a router resets and refuses what \
			      goes from these to the others */ \
	X(sever, 2, true) /* rank, rank: the link between them breaks */ \
	X(flip, 2, true) /* from, to: a bit of the next message flips; its checksum shows it */ \
	X(twice, 1, true) /* rank: its HELLO comes again, over another connection */ \
	X(strange, 1, true) /* kind of bytes: a connection that is of no rank */ \
	X(differ, 3, false) /* rank, call, kind: it makes another call */ \
	X(revoke, 2, false) /* rank, call: it revokes the communicator before this call */ \
	X(leave, 2, false) /* rank, call: it leaves before this call */ \
	X(depart, 1, false) /* rank: its process ends once it has left */ \
	X(quit, 2, false) /* rank, call: it dies once it has finished this call */ \
	X(lag, 3, false) /* rank, call, ms: it computes before this call */ \
	X(late, 2, false) /* rank, ms: it starts late */ \
	X(absent, 1, false) /* rank: it never starts */ \
	X(decline, 1, false) /* rank: it cannot take part */ \
	X(setting, 1, false) /* rank: it has another RONDO_PIECE */ \
	X(refuse, 2, false) /* rank, attempts to connect that fail */ \
	X(deaf, 3, false) /* rank, rank, transport: it breaks under a greeting of the first */ \
	X(shut, 3, false) /* rank, rank, transport: the first of the ranks cannot open it */

enum fault_kind {
#define FAULT_ENUM(name, count, strikes) FAULT_##name,
	FAULT_KINDS(FAULT_ENUM)
#undef FAULT_ENUM
		FAULT_KIND_COUNT
};

struct fault {
	enum fault_kind kind;
	unsigned event; /* at which it strikes */
	int number[3];
};

struct faults {
	int count;
	struct fault at[FAULTS_MAX];
};

/* Draws the faults of a run of so many ranks and calls. */
void faults_draw(struct faults *faults, struct draw *stream, int size, int calls);
/* Draws faults among these kinds alone. */
void faults_draw_of(struct faults *faults, struct draw *stream, int size, int calls,
	const enum fault_kind *among, size_t kind_count);
/* Drops those that name ranks or calls that are not there. */
void faults_fit(struct faults *faults, int size, int calls);
/* Whether it strikes at an event. */
bool fault_strikes(const struct fault *fault);
/* "120:kill 2,7:partition 5 300,lag 1 0 40". */
void faults_print(const struct faults *faults, char text[FAULTS_TEXT]);
/* Reads it again. False: it is no list of faults. */
bool faults_read(struct faults *faults, const char *text);

#endif
