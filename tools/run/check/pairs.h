/* Measures between ranks: the bandwidth of each pair, and the difference of clocks. */
#ifndef RUN_CHECK_PAIRS_H
#define RUN_CHECK_PAIRS_H

#include "rondo.h"

/* gbps[peer]: GB/s of the slower direction, where this rank is the lower one of the pair; else 0.
   Returns 0 or the error of rondo.h. */
int check_bandwidths(rondo_comm *comm, double *gbps);

/* In rank 0: skew[peer] is the peer's clock minus its own, in seconds. Others take part. */
int check_clocks(rondo_comm *comm, double *skew);

#endif
