/* What the pretend GPUs need beyond the table. */
#ifndef RD_EMULATED_H
#define RD_EMULATED_H

#include <stdbool.h>

#include "steps.h"
#include "work.h"

/* So many devices; without handles, no other process can map their memory. */
void rd_emulated_set(int count, bool handles);

/* What the kernels do, by the calling thread. */
void rd_emulated_run(const struct rd_work *work);
void rd_emulated_steps(const struct rd_steps *steps);

/* As kernels wait: until the word has reached the number; false once the halt word says so, or
   after so long a silence of this peer, of which the host is told. */
bool rd_emulated_await(
	struct rd_halt *halt, uint64_t timeout_ns, const uint32_t *word, uint32_t number, int peer);
/* Tells the host why a kernel gives up: false. */
bool rd_emulated_give_up(struct rd_halt *halt, uint32_t error, int peer);

#endif
