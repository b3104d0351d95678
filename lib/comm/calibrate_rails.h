/*
 * Calibration of rails: how much less time messages take over all rails at once than over one. The
 * rails add up where they are the limit, and not where the processor is.
 */
#ifndef RD_CALIBRATE_RAILS_H
#define RD_CALIBRATE_RAILS_H

struct rondo_comm;
struct rd_link_cost;

/* Called by two ranks whose links have several rails. Measures cost->striped on the leader, by the
   other costs; 0 where messages take too long to measure it. */
int rd_calibrate_rails(struct rondo_comm *comm, int leader, int other, struct rd_link_cost *cost);

#endif
