/*
 * Rules of both ends of a control connection that goes on after its socket was reset
 * (client_reconnect.h, server_reconnect.h).
 */
#ifndef RD_RECONNECT_H
#define RD_RECONNECT_H

#include <stdint.h>

#include "bootstrap/rendezvous.h"

#define RD_RECONNECT_ATTEMPT_MS 1000 /* for one attempt */
#define RD_RECONNECT_LEAST_MS 5 /* between two attempts, and twice that after each, */
#define RD_RECONNECT_MOST_MS 250 /* up to this */

/* The pause after one of this length; 0: there was none. */
static inline int rd_reconnect_pause_ms(int pause_ms)
{
	return pause_ms == 0 ? RD_RECONNECT_LEAST_MS
			     : (int)rd_sooner(2 * pause_ms, RD_RECONNECT_MOST_MS);
}

#endif
