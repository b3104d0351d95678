/*
 * The connections of tcp that come to a station's listener (bootstrap/listener.h). A wire whose
 * hello is valid goes to its connection, or waits until that begins (early.h). Any other is closed
 * without an answer.
 *
 * Where the job has a secret, a rank of another host proves that it has it before its hello.
 */
#ifndef RD_TCP_ARRIVALS_H
#define RD_TCP_ARRIVALS_H

#include "transports/tcp/station.h"

/* Finds the station's listener, without a socket of tcp. */
int rd_tcp_arrivals_start(struct rd_tcp_station *station, const struct rd_local *local);
/* Under the station's lock, or nobody else has it: no more come. */
void rd_tcp_arrivals_end(struct rd_tcp_station *station);

/* Under the station's lock: serves the listener, and requests the timer for it. */
void rd_tcp_arrivals_serve(struct rd_tcp_station *station);

#endif
