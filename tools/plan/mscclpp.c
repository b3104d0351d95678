#include "mscclpp.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- Channels, buffers, semaphores ---------------------------------------------------------- */

static int read_peer(struct mscclpp *reading, const struct rd_json_value *value)
{
	int last = reading->msccl->problem.size - 1;
	int64_t peer;

	if (rd_json_whole(value, 0, last, &peer) && peer != reading->rank)
		return (int)peer;
	mscclpp_refuse(reading, value, "a peer is another rank from 0 to %d", last);
	return 0;
}

/* Adds the channels of a type behind those of all GPUs so far. */
static void read_channels(struct mscclpp *reading, enum mscclpp_type type, int *count)
{
	struct mscclpp_pair *pairs =
		&reading->pairs[reading->rank * reading->msccl->problem.size * MSCCLPP_TYPES];
	const struct rd_json_value *list =
		mscclpp_array(reading, reading->gpus[reading->rank].value, "channels");

	MSCCLPP_EACH (entry, list) {
		const struct rd_json_value *peers = mscclpp_array(reading, entry, "connected_to");

		if (mscclpp_channel_type(reading, entry, "channel_type") != type)
			continue;
		MSCCLPP_EACH (value, peers) {
			int peer = read_peer(reading, value);

			reading->channels[(*count)++] = (struct mscclpp_channel){ peer,
				pairs[peer * MSCCLPP_TYPES + type].count++ };
		}
	}
}

static void read_buffers(struct mscclpp *reading, int *count)
{
	const struct rd_json_value *list =
		mscclpp_array(reading, reading->gpus[reading->rank].value, "remote_buffers");

	MSCCLPP_EACH (value, list) {
		const struct rd_json_value *peer = rd_json_member(&reading->json, value, "rank");

		reading->buffers[(*count)++] =
			(struct mscclpp_buffer){ read_peer(reading, peer ? peer : value),
				mscclpp_buffer(reading, value) };
	}
}

static void read_semaphores(struct mscclpp *reading, int *count)
{
	const struct rd_json_value *list =
		mscclpp_array(reading, reading->gpus[reading->rank].value, "semaphores");

	MSCCLPP_EACH (value, list)
		reading->msccl->counters[(*count)++] =
			mscclpp_whole(reading, value, "init_value", 0, MSCCL_CHUNKS_MAX);
}

/* All that thread blocks refer to, of all GPUs: a signal goes to a counter of another one. */
static void read_resources(struct mscclpp *reading)
{
	int size = reading->msccl->problem.size, channels = 0, buffers = 0, counters = 0;

	for (reading->rank = 0; reading->rank < size; reading->rank++) {
		struct mscclpp_gpu *gpu = &reading->gpus[reading->rank];

		for (int type = 0; type < MSCCLPP_TYPES; type++) {
			gpu->channels[type] = channels;
			read_channels(reading, type, &channels);
		}
		gpu->channels[MSCCLPP_TYPES] = channels;
		gpu->buffers = buffers;
		read_buffers(reading, &buffers);
		gpu->buffer_count = buffers - gpu->buffers;
		gpu->semaphores = counters;
		read_semaphores(reading, &counters);
		gpu->semaphore_count = counters - gpu->semaphores;
		gpu->barriers = counters;
		counters += MSCCLPP_BARRIERS;
	}
	reading->rank = -1;
	for (int i = 0; i < size * size * MSCCLPP_TYPES; i++) {
		reading->pairs[i].first = counters;
		counters += reading->pairs[i].count;
	}
}

/* Each of them has a value in the document. */
static void make_resources(struct mscclpp *reading)
{
	size_t size = (size_t)reading->msccl->problem.size;
	size_t values = (size_t)reading->json.count;

	if (reading->err)
		return;
	reading->channels = calloc(values, sizeof(*reading->channels));
	reading->buffers = calloc(values, sizeof(*reading->buffers));
	reading->pairs = calloc(size * size * MSCCLPP_TYPES, sizeof(*reading->pairs));
	reading->msccl->counters = calloc(values + size * MSCCLPP_BARRIERS, sizeof(int));
	if (reading->channels && reading->buffers && reading->pairs && reading->msccl->counters)
		read_resources(reading);
	else
		reading->err = rd_fail(RONDO_MEMORY, "no memory to read %s", reading->name);
}

/* ---- Thread blocks -------------------------------------------------------------------------- */

static void read_ids(struct mscclpp *reading, const struct rd_json_value *lists,
	const char *lists_member, const char *type_member, struct mscclpp_ids *ids)
{
	ids->count = 0;
	if (lists->count > MSCCLPP_LISTS_MAX) {
		mscclpp_refuse(reading, lists, "\"%s\" has more than %d lists of ids", lists_member,
			MSCCLPP_LISTS_MAX);
		return;
	}
	MSCCLPP_EACH (list, lists) {
		ids->lists[ids->count].type = mscclpp_channel_type(reading, list, type_member);
		ids->lists[ids->count++].ids = mscclpp_array(reading, list, ids->member);
	}
}

static void read_block(struct mscclpp *reading, const struct rd_json_value *value)
{
	struct msccl_block block = { .line = value->line,
		.rank = reading->rank,
		.id = reading->block,
		.to = -1,
		.peer = -1 };
	const struct rd_json_value *ops = mscclpp_array(reading, value, "ops");

	memset(reading->barrier_uses, 0, sizeof(reading->barrier_uses));
	mscclpp_whole(reading, value, "id", block.id, block.id);
	read_ids(reading, mscclpp_array(reading, value, "channels"), "channels", "channel_type",
		&reading->block_channels);
	read_ids(reading, mscclpp_array(reading, value, "remote_buffer_refs"), "remote_buffer_refs",
		"access_channel_type", &reading->block_buffers);
	if (!reading->err)
		reading->err = msccl_add_block(reading->msccl, block);
	MSCCLPP_EACH (op, ops) {
		reading->op++;
		mscclpp_read_op(reading, op);
	}
	reading->op = -1;
}

static void read_blocks(struct mscclpp *reading)
{
	const struct rd_json_value *gpu = reading->gpus[reading->rank].value;
	const struct rd_json_value *list = mscclpp_array(reading, gpu, "threadblocks");
	int scratch = mscclpp_whole(reading, gpu, "scratch_chunks", 0, MSCCL_CHUNKS_MAX);

	msccl_add_rank(reading->msccl, scratch * reading->scale);
	MSCCLPP_EACH (value, list) {
		reading->block++;
		read_block(reading, value);
	}
	reading->block = -1;
}

/* ---- The document --------------------------------------------------------------------------- */

/* How many chunks a buffer of this many blocks has; 0: none, or the executor does not use it. */
static void check_chunks(struct mscclpp *reading, const char *member, int blocks, int parts)
{
	const struct rd_json_value *gpu = reading->gpus[reading->rank].value;
	int chunks = mscclpp_whole(reading, gpu, member, 0, MSCCL_CHUNKS_MAX);

	if (chunks > 0 && blocks > 0 && (int64_t)chunks != (int64_t)blocks * parts)
		mscclpp_refuse(reading, gpu, "\"%s\" is %d, not %d: it has %d blocks", member,
			chunks, blocks * parts, blocks);
}

static void read_chunks(struct mscclpp *reading)
{
	struct msccl *msccl = reading->msccl;
	struct rd_problem problem = msccl->problem;
	int ins = rd_in_blocks(&problem), outs = rd_out_blocks(&problem), in, out;
	const struct rd_json_value *gpu;

	if (reading->err)
		return;
	gpu = reading->gpus[0].value;
	reading->rank = 0;
	in = mscclpp_whole(reading, gpu, "input_chunks", 0, MSCCL_CHUNKS_MAX);
	out = mscclpp_whole(reading, gpu, "output_chunks", 0, MSCCL_CHUNKS_MAX);
	msccl->parts = in && ins ? in / ins : out / (outs ? outs : 1);
	if (msccl->parts < 1)
		mscclpp_refuse(reading, gpu,
			"there are fewer chunks than blocks: %d of the input, %d of the output",
			ins, outs);
	if (!msccl_chunks_fit(msccl, (int64_t)msccl->parts * reading->scale))
		mscclpp_refuse(reading, gpu, "there are too many chunks");
	for (; reading->rank < problem.size && !reading->err; reading->rank++) {
		problem.rank = reading->rank;
		check_chunks(reading, "input_chunks", rd_in_blocks(&problem), msccl->parts);
		check_chunks(reading, "output_chunks", rd_out_blocks(&problem), msccl->parts);
	}
	reading->rank = -1;
	msccl->parts *= reading->scale;
}

static void read_gpus(struct mscclpp *reading)
{
	const struct rd_json_value *document = reading->json.values;
	const struct rd_json_value *gpus = mscclpp_array(reading, document, "gpus");
	int size = gpus->count;

	if (size < 1 || size > RD_FILE_RANKS_MAX)
		mscclpp_refuse(reading, gpus->line ? gpus : document,
			"\"gpus\" has 1 to %d GPUs, not %d", RD_FILE_RANKS_MAX, size);
	if (reading->err)
		return;
	reading->msccl->problem.size = size;
	reading->gpus = calloc((size_t)size, sizeof(*reading->gpus));
	if (!reading->gpus)
		reading->err = rd_fail(RONDO_MEMORY, "no memory to read %s", reading->name);
	MSCCLPP_EACH (value, gpus) {
		int id = ++reading->rank;

		reading->gpus[id].value = value;
		mscclpp_whole(reading, value, "id", id, id);
	}
	reading->rank = -1;
}

/* The least number of parts of a chunk which all thread block groups share evenly. */
static void read_scale(struct mscclpp *reading)
{
	int64_t blocks;

	reading->scale = 1;
	for (int i = 0; i + 1 < reading->json.count && !reading->err; i++) {
		const struct rd_json_value *key = &reading->json.values[i];
		int scale = reading->scale;

		if (key->kind != RD_JSON_STRING || strcmp(key->text, "tbg_size") != 0)
			continue;
		if (!rd_json_whole(key + 1, 1, MSCCLPP_SCALE_MAX, &blocks)) {
			mscclpp_refuse(reading, key, "\"tbg_size\" is a whole number from 1 to %d",
				MSCCLPP_SCALE_MAX);
			return;
		}
		while (scale % blocks)
			scale += reading->scale;
		if (scale > MSCCLPP_SCALE_MAX)
			mscclpp_refuse(reading, key,
				"thread block groups divide a chunk into more than %d parts",
				MSCCLPP_SCALE_MAX);
		reading->scale = scale;
	}
}

/* 2^64 - 1, which is no bound, has more digits than an int64_t. */
static int64_t read_bound(struct mscclpp *reading, const char *member, int64_t bytes)
{
	const struct rd_json_value *value =
		rd_json_member(&reading->json, reading->json.values, member);
	size_t digits =
		value && value->kind == RD_JSON_NUMBER ? strspn(value->text, "0123456789") : 0;

	if (!value || rd_json_whole(value, 0, INT64_MAX, &bytes))
		return bytes;
	if (digits < 19 || strchr(".eE", value->text[digits]))
		mscclpp_refuse(reading, value, "\"%s\" is a whole number from 0 on", member);
	return INT64_MAX;
}

static void read_range(struct mscclpp *reading)
{
	int64_t least = read_bound(reading, "min_message_size", 0);
	int64_t most = read_bound(reading, "max_message_size", INT64_MAX);

	if (reading->err)
		return;
	msccl_set_range(reading->msccl, least, most);
	if (reading->msccl->most_bytes < reading->msccl->least_bytes)
		mscclpp_refuse(reading, reading->json.values,
			"no size is between \"min_message_size\" and \"max_message_size\"");
}

static void read_problem(struct mscclpp *reading)
{
	const struct rd_json_value *document = reading->json.values;
	const struct rd_json_value *in_place = rd_json_member(&reading->json, document, "inplace");
	const char *name = mscclpp_text(reading, document, "name");
	const char *text = mscclpp_text(reading, document, "collective");
	int collective = msccl_collective(text);

	if (collective < 0)
		mscclpp_refuse(reading, document, "there is no plan of collective \"%.40s\"", text);
	if (!in_place || (in_place->kind != RD_JSON_TRUE && in_place->kind != RD_JSON_FALSE))
		mscclpp_refuse(
			reading, in_place ? in_place : document, "\"inplace\" is true or false");
	if (reading->err)
		return;
	reading->msccl->problem.collective = (enum rd_collective)collective;
	reading->msccl->in_place = in_place->kind == RD_JSON_TRUE;
	read_gpus(reading);
	if (!reading->err)
		reading->err = msccl_begin(reading->msccl, name);
}

static void read_document(struct mscclpp *reading)
{
	read_scale(reading);
	read_problem(reading);
	read_chunks(reading);
	read_range(reading);
	make_resources(reading);
	for (int rank = 0; !reading->err && rank < reading->msccl->problem.size; rank++) {
		reading->rank = rank;
		read_blocks(reading);
	}
}

int mscclpp_parse(struct msccl *msccl, const char *name, const char *text, size_t size)
{
	struct mscclpp reading = { .name = name,
		.msccl = msccl,
		.rank = -1,
		.block = -1,
		.op = -1,
		.block_channels.member = "channel_ids",
		.block_buffers.member = "remote_buffer_ids" };

	*msccl = (struct msccl){ .name = name };
	reading.err = rd_json_parse(&reading.json, name, text, size);
	if (!reading.err)
		read_document(&reading);
	if (!reading.err)
		reading.err = msccl_join_chunks(msccl);
	free(reading.gpus);
	free(reading.channels);
	free(reading.buffers);
	free(reading.pairs);
	rd_json_finish(&reading.json);
	return reading.err;
}
