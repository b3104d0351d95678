/*
 * Calibration of links: two ranks on one host exchange messages, then two on different hosts, over
 * the real links and by the real executor.
 */
#ifndef RD_CALIBRATE_LINKS_H
#define RD_CALIBRATE_LINKS_H

#include <stdbool.h>

struct rondo_comm;

/* Measures comm->costs.links on rank 0; what other ranks have there is not of use. oversubscribed:
   a host has more ranks than cores, so single copy is not measured. Collective; changes
   comm->single_copy. */
int rd_calibrate_links(struct rondo_comm *comm, bool oversubscribed);

#endif
