/*
 * The progress of the proofs of one collective. Lies in memory that rondo-check shares with the
 * proving process, so that it outlives a crash or a timeout of that process.
 */
#ifndef CHECK_PROGRESS_H
#define CHECK_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rondo/algorithm.h"

enum proof_state {
	PROOF_UNTRIED,
	PROOF_HOLDS, /* for each root and layout */
	PROOF_DECLINED, /* may_run() declined all */
	PROOF_IN_PART, /* may_run() declined some, and the others are proved */
};

struct proof_size {
	int ranks;
	enum proof_state state;
	uint64_t digest; /* of the plans, where `state` is set */
};

struct progress {
	bool ended; /* all sizes are done, or one was refused */
	_Atomic int crash; /* enum crash_place */
	struct rd_problem problem; /* being proved */
	const char *_Atomic running; /* the plug-in's function that runs; NULL: none */
	int64_t since_ms; /* when it was called */
	int count; /* of sizes */
	struct proof_size sizes[]; /* ascending */
};

/* For the sizes 1 to `ranks` and `larger[count]`. NULL: no memory. */
struct progress *progress_create(int ranks, const int *larger, int count);
void progress_destroy(struct progress *progress);

/* Wraps the algorithm: its functions record in `progress` that they run. One wrapper at a time. */
struct rd_algorithm progress_watch(struct progress *progress, const struct rd_algorithm *algorithm);

/* Writes the sizes in either state, "1..64, 80, 96", then "..." if they do not fit. Returns their
   number. */
int progress_print(const struct progress *progress, enum proof_state state, enum proof_state other,
	char *text, size_t size);
int progress_count(const struct progress *progress, enum proof_state state);

#endif
