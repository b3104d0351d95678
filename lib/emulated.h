/* What the pretend GPUs need beyond the table. */
#ifndef RD_EMULATED_H
#define RD_EMULATED_H

#include <stdbool.h>

#include "work.h"

/* So many devices; without handles, no other process can map their memory. */
void rd_emulated_set(int count, bool handles);

/* What the kernel does, by the calling thread. */
void rd_emulated_run(const struct rd_work *work);

#endif
