/* The state of a rank in one comm, for `rondo-run --status` (status.h). */
#ifndef RD_CONTROL_STATUS_H
#define RD_CONTROL_STATUS_H

#include "bootstrap/control_state.h"

/* The thread's: answers a process that asks, where one waits: one line of JSON, as
   docs/rondo-run.md describes it. False: none can be accepted. */
bool rd_control_answer(struct rd_control *control, int64_t now_ms);

#endif
