/* The state of a rank in one comm, for `rondo-run --status` (status.h). */
#ifndef RD_CONTROL_STATUS_H
#define RD_CONTROL_STATUS_H

#include <stdio.h>

#include "bootstrap/control_state.h"

/* The thread's: writes one line of JSON, as docs/rondo-run.md describes it. */
void rd_control_write_status(FILE *out, struct rd_control *control, int64_t now_ms);

#endif
