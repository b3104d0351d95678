/*
 * The path of messages to a rank: from the last message that it takes back to its sender, from the
 * last that this one took before to that one's sender, and so on. No call ends sooner. In schedules
 * that are too large for a replay it shows how ranks wait for each other: around a ring, along a
 * chain, down a tree.
 */
#ifndef RD_PATH_H
#define RD_PATH_H

#include "tuner/event.h"

/* All work on a path, and the steps that put its messages. */
struct rd_path {
	struct rd_event_sum work, flights;
	int hops; /* messages that were followed */
	int64_t all; /* about so many there are */
	int busiest; /* the rank on it with the longest plan */
};

/*
 * Finds the path to the rank that ends last: the root of a reduce or gather, the rank before it in
 * a broadcast or scatter, rank 0 else. Then that to the first message which this rank takes. The
 * last messages of a long path stand for all. Returns 0 or an error with its reason. The caller
 * frees the tables of events.
 */
int rd_paths_find(struct rd_path *path, struct rd_path *begin, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem);

#endif
