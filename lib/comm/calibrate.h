/*
 * Calibration: measures the costs of a new comm's links (calibrate_links.h), rails
 * (calibrate_rails.h), memory (calibrate_memory.h) and shared cores. A few ranks measure; where
 * those share cores, they run a few barriers. The others wait.
 * It takes a few milliseconds at most on one host. A group does without: it has its parent's costs.
 *
 * Costs measured before under the same conditions are not measured again. This process may hold
 * them, or the file that RONDO_TUNE_FILE names (cost_file.h). The coordinator sends them to all.
 */
#ifndef RD_CALIBRATE_H
#define RD_CALIBRATE_H

struct rd_tuner_rows;
struct rondo_comm;

/* Fills in comm->costs and comm->rows, the same on every rank. Collective. Call after rd_connect(),
   before the first call; the numbers of calls do not change. */
int rd_calibrate(struct rondo_comm *comm);

/* Copies the rows for the comm, which has none; it frees them. RONDO_MEMORY. */
int rd_keep_rows(struct rondo_comm *comm, const struct rd_tuner_rows *rows);

#endif
