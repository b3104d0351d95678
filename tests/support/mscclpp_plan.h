/* Execution plans of MSCCL++ as text, in the shapes that its compiler emits. */
#ifndef MSCCLPP_PLAN_H
#define MSCCLPP_PLAN_H

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/msccl.h"

static inline int import(const char *text, struct rd_plan_file **file)
{
	struct msccl msccl;
	int err = mscclpp_parse(&msccl, "f", text, strlen(text));

	*file = NULL;
	if (!err)
		err = msccl_to_file(&msccl, file);
	msccl_finish(&msccl);
	return err;
}

/* ---- A plan while it is written: each operation has a line ---------------------------------- */

static struct {
	char text[1 << 21];
	size_t length;
	int ranks, rank, gpus, blocks, ops; /* so far: of the plan, the GPU, the block */
	const char *type; /* of all channels */
} plan;

__attribute__((format(printf, 1, 2))) static inline void put(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	plan.length += (size_t)vsnprintf(
		plan.text + plan.length, sizeof(plan.text) - plan.length, format, args);
	va_end(args);
	cr_assert_lt(plan.length, sizeof(plan.text));
}

static inline void begin(const char *collective, int ranks, const char *type, const char *in_place)
{
	memset(&plan, 0, sizeof(plan));
	plan.ranks = ranks;
	plan.type = type;
	put("{\"name\": \"Own(%d)\", \"collective\": \"%s\", \"protocol\": \"Simple\", ", ranks,
		collective);
	put("\"inplace\": %s, \"max_message_size\": 18446744073709551615, \"gpus\": [", in_place);
}

/* Places of the other ranks, as each list of channels and of remote buffers has them. */
static inline void list_peers(const char *separator, bool ranks)
{
	for (int i = 0; i < plan.ranks - 1; i++)
		put("%s%d", i ? separator : "", ranks && i >= plan.rank ? i + 1 : i);
}

/* A channel to each other rank, and the buffer of this type there. */
static inline void gpu(int ins, int outs, int scratch, const char *buffer)
{
	plan.rank = plan.gpus;
	plan.blocks = 0;
	put("%s\n{\"id\": %d, \"input_chunks\": %d, \"output_chunks\": %d, ",
		plan.gpus++ ? "," : "", plan.rank, ins, outs);
	put("\"scratch_chunks\": %d, \"channels\": [{\"channel_type\": \"%s\", ", scratch,
		plan.type);
	put("\"connected_to\": [");
	list_peers(", ", true);
	put("]}], \"semaphores\": [{\"init_value\": 0}], \"remote_buffers\": [");
	for (int peer = 0, i = 0; peer < plan.ranks; peer++)
		if (peer != plan.rank)
			put("%s{\"rank\": %d, \"type\": \"%s\", \"access_channel_types\": "
			    "[\"%s\"]}",
				i++ ? ", " : "", peer, buffer, plan.type);
	put("], \"threadblocks\": [");
}

static inline void block(void)
{
	plan.ops = 0;
	put("%s\n{\"id\": %d, \"channels\": [{\"channel_type\": \"%s\", \"channel_ids\": [",
		plan.blocks ? "," : "", plan.blocks, plan.type);
	plan.blocks++;
	list_peers(", ", false);
	put("]}], \"remote_buffer_refs\": [{\"access_channel_type\": \"%s\", ", plan.type);
	put("\"remote_buffer_ids\": [");
	list_peers(", ", false);
	put("]}], \"ops\": [");
}

static inline void op(const char *name, const char *members)
{
	put("%s\n{\"name\": \"%s\", \"channel_type\": \"%s\"%s%s}", plan.ops++ ? "," : "", name,
		plan.type, *members ? ", " : "", members);
}

static inline const char *all_channels(void)
{
	static char text[64];
	int length = snprintf(text, sizeof(text), "\"channel_ids\": [0");

	for (int i = 1; i < plan.ranks - 1; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, ", %d", i);
	snprintf(text + length, sizeof(text) - (size_t)length, "]");
	return text;
}

static inline const char *sync(void)
{
	op("signal", all_channels());
	op("wait", all_channels());
	return "";
}

/* A chunk: of this rank, "i3"; or of the place in the list of remote buffers, "@0:3". */
static inline int chunk(char *text, size_t size, const char *from, int count)
{
	if (*from == '@')
		return snprintf(text, size, "{\"buffer_id\": %d, \"index\": %d, \"size\": %d}",
			atoi(from + 1), atoi(strchr(from, ':') + 1), count);
	return snprintf(text, size, "{\"type\": \"%c\", \"index\": %d, \"size\": %d}", *from,
		atoi(from + 1), count);
}

static inline char *chunks(char *text, size_t size, const char *list, int count)
{
	char copy[256], *rest, *at = text;

	snprintf(copy, sizeof(copy), "%s", list);
	for (char *one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
		if (at > text)
			*at++ = ',';
		at += chunk(at, size - (size_t)(at - text), one, count);
	}
	return text;
}

/* Lists of chunks, with spaces. */
static inline void move_with(
	const char *name, const char *from, const char *into, int count, const char *more)
{
	char members[4096], source[1500], target[1500];

	snprintf(members, sizeof(members), "\"src_buff\": [%s], \"dst_buff\": [%s]%s%s",
		chunks(source, sizeof(source), from, count),
		chunks(target, sizeof(target), into, count), *more ? ", " : "", more);
	op(name, members);
}

static inline void move(const char *name, const char *from, const char *into, int count)
{
	move_with(name, from, into, count, "");
}

static inline void end_block(void)
{
	put("]}");
}

static inline void end_gpu(void)
{
	put("]}");
}

/* "i3 @0:3 @1:3": this chunk here, and in all remote buffers. */
static inline const char *everywhere(char buffer, int index)
{
	static char texts[4][128];
	static int next;
	char *text = texts[next++ % 4];
	int length = snprintf(text, 128, "%c%d", buffer, index);

	for (int i = 0; i < plan.ranks - 1; i++)
		length += snprintf(text + length, 128 - (size_t)length, " @%d:%d", i, index);
	return text;
}

#endif
