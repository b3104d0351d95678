/*
 * Lending: whether the messages of a call are better lent (link->single_copy) or written into the link's
 * room, learned from the calls themselves. What a message costs does not say it, nor does a
 * rehearsal: single copy wins by a quarter where the memory has lain still since it was last read,
 * and loses by a tenth where the program has just written it.
 *
 * Calls alike (of one choice of the picker's) are tried both ways at first, and now and then again.
 * Each rank learns for itself what it sends, from its own times. Transfers, and calls that leave
 * the picker no choice, go through rooms: a sender's own time does not say when its receiver was
 * done.
 */
#ifndef RD_SINGLE_COPY_H
#define RD_SINGLE_COPY_H

#include <stdbool.h>
#include <stdint.h>

/* What a comm lends, where its links can. */
enum rd_single_copy_mode {
	RD_SINGLE_COPY_NEVER,
	RD_SINGLE_COPY_ALWAYS,
	RD_SINGLE_COPY_LEARNED,
};

/* Of a block of fewer bytes than this nothing is lent. */
#define RD_SINGLE_COPY_LEAST (32 << 10)

/* All zeros at first. */
struct rd_single_copy {
	uint32_t calls;
	uint32_t stretch; /* calls that go the same way, in a trial */
	bool wins, settled; /* lending is better; this period's trial is over */
	int64_t stretch_ps; /* of the trial: the stretch under way, a byte, */
	int64_t best_ps[2]; /* and the best of those that copied, and lent; 0: none yet */
};

/* Whether the next call, of so many bytes, lends. *tried: rd_single_copy_record() must follow. */
bool rd_single_copy_next(struct rd_single_copy *learned, uint64_t bytes, bool *tried);

/* The call that was asked for last took so long. lent: something was; where nothing could be, the
   trial is over. */
void rd_single_copy_record(struct rd_single_copy *learned, bool copied_once, uint64_t bytes, int64_t took_ns);

#endif
