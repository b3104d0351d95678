/*
 * Learns from the calls themselves whether single copy (link->single_copy) or the link's slots
 * suit their messages better. Neither the cost of a message nor a trial run before the first call
 * shows it. Single copy wins by a quarter where the memory has not changed since it was last read.
 * It loses by a tenth where the program has just written that memory.
 *
 * Calls of one choice of the picker run both ways at first, and again from time to time. Each rank
 * learns separately for the messages that it sends, from its own times. Transfers, and calls
 * without a choice of the picker, go through slots: a sender's own time does not include its
 * receiver's.
 */
#ifndef RD_SINGLE_COPY_H
#define RD_SINGLE_COPY_H

#include <stdbool.h>
#include <stdint.h>

/* Use of single copy on a comm, where its links have it. */
enum rd_single_copy_mode {
	RD_SINGLE_COPY_NEVER,
	RD_SINGLE_COPY_ALWAYS,
	RD_SINGLE_COPY_LEARNED,
};

/* All zeros at first. */
struct rd_single_copy {
	uint32_t calls;
	uint32_t stretch; /* calls in a row that go the same way, in a trial */
	bool wins, settled; /* single copy is better; this period's trial is over */
	uint32_t share; /* where it wins: thousandths of the time by slots that calls take */
	int64_t stretch_ps; /* in the trial: ps a byte of the current stretch, */
	int64_t best_ps[2]; /* and the best of the stretches: slots, single copy; 0: none yet */
};

/* Returns whether the next call, of `bytes` bytes, uses single copy. *tried:
   rd_single_copy_record() must follow. */
bool rd_single_copy_next(struct rd_single_copy *learned, uint64_t bytes, bool *tried);

/* Records the time of the call that rd_single_copy_next() was last called for. copied_once: a
   message of it used single copy. Where none could, the trial is over. */
void rd_single_copy_record(
	struct rd_single_copy *learned, bool copied_once, uint64_t bytes, int64_t took_ns);

/* The time of a call that takes slots_ns through slots, in the way that has won. */
int64_t rd_single_copy_expect(const struct rd_single_copy *learned, int64_t slots_ns);

#endif
