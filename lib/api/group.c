#include "api/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hot_call.h"
#include "base/error.h"

static _Thread_local struct rd_group group;

/* A group that was open at a fork is the parent's: the child has none. */
RD_HOT_CALL bool rd_group_open(void)
{
	return group.depth > 0 && !rd_is_inherited(group.forks);
}

void rd_group_lose_stream(const struct rondo_stream *stream)
{
	if (rd_group_open() && group.count > 0 && group.stream == stream)
		rd_group_refuse(rd_fail(RONDO_INVALID,
			"rondo_stream_destroy: calls of the open group are on this stream: end the "
			"group first"));
}

int rd_group_refuse(int error)
{
	if (!group.error) {
		group.error = error;
		snprintf(group.reason, sizeof(group.reason), "%s", rondo_last_error());
	}
	return error;
}

static int grow(void)
{
	int capacity = group.capacity ? 2 * group.capacity : 16;
	struct rd_task *tasks;

	if (group.count < group.capacity)
		return 0;
	if (group.count == RONDO_GROUP_MAX)
		return rd_fail(RONDO_INVALID, "a group holds at most %d calls", RONDO_GROUP_MAX);
	tasks = realloc(group.tasks, capacity * sizeof(*tasks));
	if (!tasks)
		return rd_fail(RONDO_MEMORY, "no memory for a group of %d calls", capacity);
	group.tasks = tasks;
	group.capacity = capacity;
	return 0;
}

int rd_group_add(struct rd_task *task, struct rondo_stream *stream)
{
	int err = grow();

	if (!err && group.count > 0 && stream != group.stream)
		err = rd_fail(RONDO_INVALID,
			"all calls of a group must be on one stream, or all on none");
	if (err) {
		rd_call_finish(&task->call);
		return rd_group_refuse(err);
	}
	group.stream = stream;
	group.tasks[group.count++] = *task;
	return 0;
}

void rd_group_clear(void)
{
	free(group.tasks);
	memset(&group, 0, sizeof(group));
}

/* The parent still has the group and its calls. */
static void drop_inherited(void)
{
	rd_tasks_finish(group.tasks, group.count);
	rd_group_clear();
}

int rondo_group_start(void)
{
	if (group.depth > 0 && !rd_group_open())
		drop_inherited();
	group.forks = rd_forks;
	group.depth++;
	return 0;
}

int rd_group_close(struct rd_group **closed)
{
	*closed = NULL;
	if (group.depth == 0)
		return rd_fail(RONDO_INVALID, "rondo_group_end without rondo_group_start");
	if (!rd_group_open()) {
		drop_inherited();
		return rd_refuse_inherited("rondo_group_end", "group");
	}
	if (--group.depth == 0)
		*closed = &group;
	return 0;
}
