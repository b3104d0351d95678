/* How the host finds out whether a rank that has not come may still come. */
#ifndef RD_SHRINK_RINGS_H
#define RD_SHRINK_RINGS_H

#include "bootstrap/shrink/state.h"

/* Sets the fate of a rank at whose place a connection failed with this errno. False: it is to be
   tried again. */
bool rd_rings_judge(struct rd_shrink *shrink, int rank, int error);
/* From now on refusals are tried again for RD_SHRINK_DOUBTS_MS. Each rank has that time; and again
   when a connection with it has ended. */
void rd_rings_doubt(struct rd_shrink *shrink);
/* Begins, with no connection. */
void rd_rings_start(struct rd_shrink *shrink, int64_t now_ms);
/* Rings where it is due; sets the fate of ranks that do not answer in time. */
void rd_rings_tick(struct rd_shrink *shrink, int64_t now_ms);
/* An event of the connection to this rank. */
void rd_rings_take(struct rd_shrink *shrink, int rank, int64_t now_ms);
/* No longer: it has come, or is not waited for. */
void rd_rings_stop(struct rd_shrink *shrink, int rank);

#endif
