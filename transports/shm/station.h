/*
 * A station: the listener of one rank and its connections to others, which the endpoints of all
 * comms of a job share. It lives as long as one of them.
 */
#ifndef RD_SHM_STATION_H
#define RD_SHM_STATION_H

#include "transports/shm/connection.h"

/* The station of the rank's job, or where it shares nothing a new one. Errors: RONDO_MEMORY,
   RONDO_SYSTEM. */
int rd_shm_station_join(struct rd_shm_station **station, const struct rd_local *local);
/* For as many endpoints as have joined. The last one closes all. */
void rd_shm_station_leave(struct rd_shm_station *station, const struct rd_local *local);
/* The same in a forked child. */
void rd_shm_station_abandon(struct rd_shm_station *station, const struct rd_local *local);

/* Around all use of connections. news: of the endpoint that uses them. */
void rd_shm_station_lock(struct rd_shm_station *station, const _Atomic bool *news);
/* Wakes threads that use other endpoints, if something has come for them. */
void rd_shm_station_unlock(struct rd_shm_station *station);

/* Under the lock: */

/* Connects connections that have not been; fails those that can never be. */
void rd_shm_station_connect(struct rd_shm_station *station);
/* Reads all connections. Returns whether something is left. */
bool rd_shm_station_poll(struct rd_shm_station *station);
/* This rank uses a comm no more. */
void rd_shm_station_refuse(struct rd_shm_station *station, uint64_t comm_id);

#endif
