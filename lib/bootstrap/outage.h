/*
 * Constants of both ends of a control connection that goes on after its socket was reset
 * (client_again.h, server_again.h).
 */
#ifndef RD_OUTAGE_H
#define RD_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/rendezvous.h"

#define RD_AGAIN_ATTEMPT_MS 1000 /* for one attempt */
#define RD_AGAIN_LEAST_MS 5 /* between two attempts, and twice that after each, */
#define RD_AGAIN_MOST_MS 250 /* up to this */

/* The pause after one of this length; 0: there was none. */
static inline int rd_again_pause_ms(int pause_ms)
{
	return pause_ms == 0 ? RD_AGAIN_LEAST_MS : (int)rd_sooner(2 * pause_ms, RD_AGAIN_MOST_MS);
}

/* Whether the `count`th reset of a connection is logged: 1, 2, 4, 8, ... A network that resets
   connections again and again fills no log. */
static inline bool rd_again_is_logged(unsigned count)
{
	return (count & (count - 1)) == 0;
}

#endif
