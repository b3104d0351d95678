/* The open group of this thread: calls that were made and wait for rondo_group_end(). */
#ifndef RD_GROUP_H
#define RD_GROUP_H

#include "comm/run.h"

bool rd_group_open(void);

/* Adds a call to the open group. Takes over its terms. */
int rd_group_add(const struct rd_task *task, struct rondo_stream *stream);

/* A call in the open group was refused: so will be the whole group. Returns error. */
int rd_group_refuse(int error);

/* A stream is about to be destroyed: where the open group has calls on it, the group is refused. */
void rd_group_lose_stream(const struct rondo_stream *stream);

#endif
