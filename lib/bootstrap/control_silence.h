/*
 * Notices that another host sends nothing: a host or a network that is gone without a word. Between
 * hosts rank 0 sends a heartbeat several times a second, and the rank answers. The kernel
 * tells when the other host's last acknowledged one, or the probe that it sends after a second
 * without any. A stopped process does not matter. For the control thread.
 */
#ifndef RD_CONTROL_SILENCE_H
#define RD_CONTROL_SILENCE_H

#include "bootstrap/control_state.h"

/* Where that is due, looks at the connections to other hosts. Logs where a silence begins or ends,
   and ends a connection whose silence is about to reach RONDO_UNREACHABLE_MS. */
void rd_control_look(struct rd_control *control, int64_t now_ms);
/* When it is due. */
int64_t rd_control_look_deadline(const struct rd_control *control);

/* Calls `see` for each rank whose host is silent, and for how long it had been at the last look.
   Rank 0 sees all, others rank 0 alone. */
void rd_control_silent_ranks(const struct rd_control *control,
	void (*see)(int rank, uint32_t silent_ms, void *argument), void *argument);

#endif
