/*
 * An execution plan of MSCCL++ while it is read (mscclpp_parse() in msccl.h). A GPU has channels to
 * other ranks, whose two ends signal each other, and buffers of other ranks. A thread block lists
 * those that its operations use, and they count in that list.
 */
#ifndef PLAN_MSCCLPP_H
#define PLAN_MSCCLPP_H

#include "base/json.h"
#include "msccl.h"

#define MSCCLPP_BARRIERS 64 /* of a GPU */
#define MSCCLPP_SCALE_MAX 64
#define MSCCLPP_LISTS_MAX 16 /* of a thread block: one a type is usual */

enum mscclpp_type { MSCCLPP_MEMORY, MSCCLPP_PORT, MSCCLPP_TYPES, MSCCLPP_OTHER = MSCCLPP_TYPES };

struct mscclpp_channel {
	int peer;
	int pair; /* the n-th to this peer: the other end is the peer's n-th to this GPU */
};

struct mscclpp_buffer {
	int rank;
	char buffer; /* i, o or s */
};

struct mscclpp_gpu {
	const struct rd_json_value *value;
	int channels[MSCCLPP_TYPES + 1]; /* indices of its first of each type; and past the last */
	int buffers, buffer_count;
	int semaphores, semaphore_count; /* its first one's counter */
	int barriers; /* the first one's counter */
};

/* The channels from one GPU to another, of a type. */
struct mscclpp_pair {
	int first; /* counter of the first one's signals to this GPU */
	int count;
};

/* A thread block's ids of channels, or of buffers. Those of a type count as one list. */
struct mscclpp_ids {
	const char *member; /* of each list */
	struct {
		enum mscclpp_type type;
		const struct rd_json_value *ids;
	} lists[MSCCLPP_LISTS_MAX];
	int count;
};

struct mscclpp {
	const char *name; /* of the file, for reasons */
	struct rd_json json;
	int err; /* the first that was found */
	struct msccl *msccl;
	int scale; /* chunks into which thread block groups divide one */
	struct mscclpp_gpu *gpus;
	struct mscclpp_channel *channels;
	struct mscclpp_buffer *buffers;
	struct mscclpp_pair *pairs; /* [(rank * size + peer) * MSCCLPP_TYPES + type] */
	/* Where it is; -1 and NULL: not in one. */
	int rank, block, op;
	const char *op_name;
	/* The thread block's: */
	struct mscclpp_ids block_channels, block_buffers;
	int barrier_uses[MSCCLPP_BARRIERS];
	/* The operation's: */
	enum mscclpp_type type;
	int share, shares; /* its thread block's part of the chunks, and of how many */
};

/* Sets reading->err to RONDO_INVALID. The reason has the file, the value's line, the GPU, the
   thread block and the operation. A first reason stays. */
void mscclpp_refuse(struct mscclpp *reading, const struct rd_json_value *value, const char *format,
	...) __attribute__((format(printf, 3, 4)));

/* Return a member of an object. One that is missing or of another kind is refused, and is `least`,
   "" or i then. */
int mscclpp_whole(struct mscclpp *reading, const struct rd_json_value *object, const char *member,
	int least, int most);
const char *mscclpp_text(
	struct mscclpp *reading, const struct rd_json_value *object, const char *member);
char mscclpp_buffer(struct mscclpp *reading, const struct rd_json_value *object);
/* An array of objects or numbers. One that is missing has none. */
const struct rd_json_value *mscclpp_array(
	struct mscclpp *reading, const struct rd_json_value *object, const char *member);
enum mscclpp_type mscclpp_channel_type(
	struct mscclpp *reading, const struct rd_json_value *object, const char *member);

/* The element behind one of an array; NULL: the first. Returns NULL behind the last, and after a
   refusal. */
const struct rd_json_value *mscclpp_next(const struct mscclpp *reading,
	const struct rd_json_value *array, const struct rd_json_value *value);
#define MSCCLPP_EACH(value, array) \
	for (const struct rd_json_value *value = NULL; \
		(value = mscclpp_next(reading, array, value)) != NULL;)

/* Adds the steps of an operation to the last thread block. */
void mscclpp_read_op(struct mscclpp *reading, const struct rd_json_value *value);

#endif
