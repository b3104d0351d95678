#include "api/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"

_Thread_local struct rd_group rd_group;

void rd_group_lose_stream(const struct rondo_stream *stream)
{
	if (rd_group_open() && rd_group.count > 0 && rd_group.stream == stream)
		rd_group_refuse(rd_fail(RONDO_INVALID,
			"rondo_stream_destroy: calls of the open group are on this stream: end the "
			"group first"));
}

int rd_group_refuse(int error)
{
	if (!rd_group.error) {
		rd_group.error = error;
		snprintf(rd_group.reason, sizeof(rd_group.reason), "%s", rondo_last_error());
	}
	return error;
}

static int grow(void)
{
	if (rd_group.count == RONDO_GROUP_MAX)
		return rd_fail(RONDO_INVALID, "a group holds at most %d calls", RONDO_GROUP_MAX);
	if (rd_grow(&rd_group.tasks, rd_group.count, &rd_group.capacity, sizeof(*rd_group.tasks)))
		return 0;
	return rd_fail(RONDO_MEMORY, "no memory for a group of %d calls", rd_group.count + 1);
}

int rd_group_add(struct rd_task *task, struct rondo_stream *stream)
{
	int err = grow();

	if (!err && rd_group.count > 0 && stream != rd_group.stream)
		err = rd_fail(RONDO_INVALID,
			"all calls of a group must be on one stream, or all on none");
	if (err) {
		rd_call_finish(&task->call);
		return rd_group_refuse(err);
	}
	rd_group.stream = stream;
	rd_group.tasks[rd_group.count++] = *task;
	return 0;
}

void rd_group_clear(void)
{
	free(rd_group.tasks);
	memset(&rd_group, 0, sizeof(rd_group));
}

/* The parent still has the group and its calls. */
static void drop_inherited(void)
{
	rd_tasks_finish(rd_group.tasks, rd_group.count);
	rd_group_clear();
	rd_process.groups--;
}

int rondo_group_start(void)
{
	if (rd_group.depth > 0 && !rd_group_open())
		drop_inherited();
	rd_group.forks = rd_process.forks;
	if (rd_group.depth++ == 0)
		rd_process.groups++;
	return 0;
}

int rd_group_close(struct rd_group **closed)
{
	*closed = NULL;
	if (rd_group.depth == 0)
		return rd_fail(RONDO_INVALID, "rondo_group_end without rondo_group_start");
	if (!rd_group_open()) {
		drop_inherited();
		return rd_refuse_inherited("rondo_group_end", "group");
	}
	if (--rd_group.depth == 0) {
		rd_process.groups--;
		*closed = &rd_group;
	}
	return 0;
}
