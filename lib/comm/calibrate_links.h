/*
 * Calibration of links: two ranks on one host exchange messages, then two on different hosts, over
 * the real links and by the real executor.
 */
#ifndef RD_CALIBRATE_LINKS_H
#define RD_CALIBRATE_LINKS_H

#include <stdbool.h>

#include "tuner/cost.h"

/* The time for the link of two ranks on a host, and for the cores that ranks share. After so many
   times as much, a busy machine has kept the ranks from measuring. */
#define RD_CALIBRATE_NS INT64_C(7000000)
#define RD_CALIBRATE_PATIENCE 5

struct rondo_comm;

/* Two ranks that measure the link between them. The leader chooses point and effort. */
struct measured_pair {
	int leader, other;
};

/* The pair that measures links of this class; leader -1: there is none. */
struct measured_pair rd_calibrate_pair(const struct rondo_comm *comm, enum rd_link_class class);

/* Measures comm->costs.links on rank 0; what other ranks have there is not of use, nor *gave_up:
   there was no time for the link within a host. Rank 0 and the ranks of both pairs call it; it
   changes comm->single_copy. */
int rd_calibrate_links(struct rondo_comm *comm, bool *gave_up);

/* Returns the memory of slots that the measurements wrote. Each rank of the pairs calls it after
   the last one, when its messages to the other have been received. */
void rd_calibrate_trim(struct rondo_comm *comm);

#endif
