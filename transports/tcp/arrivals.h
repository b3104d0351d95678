/*
 * A station's door (net/door.h), and what it hands over. A wire whose hello is valid goes to its
 * connection, or waits until that begins (early.h). Any other is closed without an answer.
 *
 * Where the job has a secret, a rank of another host proves that it has it before its hello.
 */
#ifndef RD_TCP_ARRIVALS_H
#define RD_TCP_ARRIVALS_H

#include "transports/tcp/station.h"

/* Makes the station's door, without a listening socket. */
int rd_tcp_arrivals_start(struct rd_tcp_station *station, const struct rd_local *local);

/* Under the station's lock: serves the door, and requests the timer for it. */
void rd_tcp_arrivals_serve(struct rd_tcp_station *station);

#endif
