/* The memory in which the ranks of a comm meet before each call (between.h). */
#ifndef BENCH_MEETING_H
#define BENCH_MEETING_H

#include "between.h"
#include "rondo.h"

/*
 * Collective. Sets *meeting, which bench_meeting_close() frees, on all ranks; or NULL on all, where
 * they do not share a host with one /proc. Returns an error if the comm failed.
 */
int bench_meeting_open(rondo_comm *comm, struct bench_meeting **meeting);
void bench_meeting_close(struct bench_meeting *meeting);

#endif
