/*
 * The work of a rank between two timed calls, as programs have it: it reads the output of the one
 * and writes the input of the next, and other work evicts its caches. The ranks of a host then
 * start the next call together, by the clock that they share.
 */
#ifndef BENCH_BETWEEN_H
#define BENCH_BETWEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zeros: the calls follow each other directly. */
struct bench_between {
	bool touch; /* write inputs before a call, read outputs after it */
	bool sleep; /* block during the gap, instead of reading the clock */
	int64_t gap_ns; /* from the last rank's arrival to the call */
	size_t walk; /* bytes of other memory to read before the gap */
};

/* In memory that all ranks share, zeroed before the first call. */
struct bench_meeting {
	_Alignas(128) _Atomic uint64_t arrived; /* over all calls */
	_Alignas(128) _Atomic int64_t latest_ns[2]; /* of odd and even calls */
	_Alignas(128) _Atomic uint64_t token; /* distinguishes this meeting; its maker's */
};

/* One rank's side. */
struct bench_start {
	const struct bench_between *between;
	struct bench_meeting *meeting;
	int ranks;
	bool yields; /* there are more ranks than processors */
	uint64_t calls;
	unsigned char *walked;
};

/* A call's memory on this rank. Sizes are bytes; 0: the call has no input or output here. */
struct bench_touched {
	void *input;
	const void *output;
	size_t input_size, output_size;
};

bool bench_between_any(const struct bench_between *between);

/* False without memory for the walk. `between` and `meeting` stay the caller's. */
bool bench_start_init(struct bench_start *start, const struct bench_between *between,
	struct bench_meeting *meeting, int ranks);
void bench_start_finish(struct bench_start *start);

/*
 * Prepares a call, returns at the common start, and returns the rank's own start, of rd_clock_ns().
 * A call lasts from the latest of them. Where each rank has a processor, a rank that the kernel
 * runs later starts later. Where they share processors, all start at the common start. -1 if a rank
 * did not come within 30 s.
 */
int64_t bench_start_await(struct bench_start *start, const struct bench_touched *touched);
/* After each call, outside its time. */
void bench_start_read(const struct bench_start *start, const struct bench_touched *touched);

#endif
