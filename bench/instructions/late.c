/*
 * Usage: late call|steps RANK CALLS
 * Two ranks, of which rank 1 always comes late to an all-reduce of 8 bytes: what it waits for is
 * there, so that it never waits, and takes the same instructions each time. It has read other
 * memory since the last call, so none of the call's lines is in its caches. Rank 0 comes early, and
 * waits. `steps` is the floor: the same two messages by the link alone.
 */
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/comm.h"
#include "comm/hold.h"
#include "ranks.h"

/* Long enough for rank 0 to have come, and to be waiting. */
#define LATE_NS 50000000

/* The first calls write plans. */
#define WARMUP 4

/* More than the largest of the simulated caches. */
static volatile unsigned char other[8 << 20];

static void walk(void)
{
	for (size_t i = 0; i < sizeof(other); i += 64)
		(void)other[i];
}

static float in[2] = { 1, 2 }, out[2];

static int warm_up(rondo_comm *comm)
{
	return rondo_all_reduce(comm, in, out, 2, RONDO_F32, RONDO_SUM, NULL);
}

/* The instructions of these functions are counted. */
__attribute__((noinline)) int counted_call(rondo_comm *comm);
__attribute__((noinline)) int counted_steps(struct rd_link *link);

int counted_call(rondo_comm *comm)
{
	return rondo_all_reduce(comm, in, out, 2, RONDO_F32, RONDO_SUM, NULL);
}

/* It checks no argument, keeps no count and compares no tag. */
int counted_steps(struct rd_link *link)
{
	static const struct rd_tag tag;
	struct rd_message message;
	struct peers_wait wait = { 0 };
	void *room = link->ops->reserve(link, sizeof(in));

	if (!room)
		return 1;
	memcpy(room, in, sizeof(in));
	link->ops->commit(link, &tag, sizeof(in));
	while (!link->ops->recv(link, NULL, sizeof(in), &message))
		if (link->error || peers_wait_is_over(&wait))
			return 1;
	for (int i = 0; i < 2; i++)
		out[i] = in[i] + ((const float *)message.data)[i];
	link->ops->release(link);
	return 0;
}

static int count_steps(rondo_comm *comm)
{
	int err = !rd_hold(comm);

	if (err)
		return err;
	err = counted_steps(comm->links[!comm->rank * comm->channels]);
	if (err)
		fprintf(stderr, "late: rank %d waited in vain for rank %d\n", comm->rank,
			!comm->rank);
	rd_unhold(comm);
	return err;
}

int main(int argc, char **argv)
{
	int rank = argc == 4 ? atoi(argv[2]) : -1, calls = argc == 4 ? atoi(argv[3]) : 0;
	int (*counted)(rondo_comm *) =
		rank >= 0 && strcmp(argv[1], "steps") == 0 ? count_steps : counted_call;
	struct timespec late = { .tv_nsec = LATE_NS };
	rondo_comm *comm;
	int err = rank < 0 ? 1 : rondo_comm_create(&comm, NULL);

	for (int i = 0; i < WARMUP + calls && !err; i++) {
		out[0] = out[1] = 0;
		if (rank == 1) {
			nanosleep(&late, NULL);
			walk();
		}
		err = i < WARMUP ? warm_up(comm) : counted(comm);
		err = err || out[0] != 2 || out[1] != 4;
	}
	if (err)
		fprintf(stderr, "late: %s\n",
			rank < 0 ? "usage: late call|steps RANK CALLS" : rondo_last_error());
	if (rank >= 0)
		rondo_comm_destroy(comm);
	return err != 0;
}
