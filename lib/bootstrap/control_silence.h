/*
 * Notices that another host sends nothing, long before its connections fail of it
 * (RONDO_UNREACHABLE_MS): the kernel tells when the other end last answered. For the control
 * thread.
 */
#ifndef RD_CONTROL_SILENCE_H
#define RD_CONTROL_SILENCE_H

#include "bootstrap/control_state.h"

/* An answer is due after a second (rd_socket_tune()), and half a second of travel. */
#define RD_SILENCE_MS 1500

/* Looks at the connections to other hosts where that is due, and logs where a silence begins or
   ends. */
void rd_control_look(struct rd_control *control, int64_t now_ms);

/* Calls `see` for each rank whose host is silent, and for how long it had been at the last look.
   Rank 0 sees all, others rank 0 alone. */
void rd_control_silent_ranks(const struct rd_control *control,
	void (*see)(int rank, uint32_t silent_ms, void *argument), void *argument);

#endif
