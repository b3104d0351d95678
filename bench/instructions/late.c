/*
 * Usage: late RANK CALLS
 * Two ranks, of which rank 1 always comes late to an all-reduce of 8 bytes: what it waits for is
 * there, so that it never waits, and takes the same instructions each time. It has read other
 * memory since the last call, so none of the call's lines is in its caches. Rank 0 comes early, and
 * waits.
 */
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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

/* The instructions of this call are counted. */
__attribute__((noinline)) int counted(rondo_comm *comm);
int counted(rondo_comm *comm)
{
	return rondo_all_reduce(comm, in, out, 2, RONDO_F32, RONDO_SUM, NULL);
}

int main(int count, char **words)
{
	int rank = count == 3 ? atoi(words[1]) : -1, calls = count == 3 ? atoi(words[2]) : 0;
	struct timespec late = { .tv_nsec = LATE_NS };
	rondo_comm *comm;
	int err = rank < 0 ? 1 : rondo_comm_create(&comm, NULL);

	for (int i = 0; i < WARMUP + calls && !err; i++) {
		if (rank == 1) {
			nanosleep(&late, NULL);
			walk();
		}
		err = i < WARMUP ? warm_up(comm) : counted(comm);
		err = err || out[0] != 2 || out[1] != 4;
	}
	if (err)
		fprintf(stderr, "late: %s\n",
			rank < 0 ? "usage: late RANK CALLS" : rondo_last_error());
	if (rank >= 0)
		rondo_comm_destroy(comm);
	return err != 0;
}
