#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exec/algorithms.h"
#include "msccl.h"
#include "xml.h"

#define CHUNKS_MAX (1 << 20)
#define BLOCKS_MAX 8192 /* of all ranks */

static const struct {
	const char *text;
	bool receives, sends;
} types[] = {
#define TYPE(name, text, receives, sends) { text, receives, sends },
	MSCCL_TYPES(TYPE)
#undef TYPE
};

#define TYPE_COUNT ((int)(sizeof(types) / sizeof(*types)))

bool msccl_receives(enum msccl_type type)
{
	return types[type].receives;
}

bool msccl_sends(enum msccl_type type)
{
	return types[type].sends;
}

int msccl_refuse(const struct msccl *msccl, int line, const char *format, ...)
{
	char what[200];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	return rd_fail(RONDO_INVALID, "%s:%d: %s", msccl->name, line, what);
}

void msccl_finish(struct msccl *msccl)
{
	for (int i = 0; i < msccl->block_count; i++)
		free(msccl->blocks[i].steps);
	free(msccl->blocks);
	free(msccl->firsts);
	free(msccl->scratch);
}

int msccl_range_blocks(const struct rd_problem *problem)
{
	bool of_all = problem->collective == RD_ALL_GATHER ||
		      problem->collective == RD_REDUCE_SCATTER ||
		      problem->collective == RD_ALL_TO_ALL;

	return of_all ? problem->size : 1;
}

int msccl_loop_blocks(const struct rd_problem *problem)
{
	struct rd_problem at_root = *problem;
	int ins, outs;

	at_root.rank = problem->root;
	ins = rd_in_blocks(&at_root);
	outs = rd_out_blocks(&at_root);
	return ins > outs ? ins : outs;
}

/* ---- Elements ------------------------------------------------------------------------------- */

/* A name of a plan file: capitals become small, all else _. */
static void make_title(char title[RD_FILE_NAME_SIZE], const char *name)
{
	for (int i = 0; i < RD_FILE_NAME_SIZE - 1 && name[i]; i++) {
		char c = name[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		title[i] = (char)((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '_');
	}
	if (!*title)
		title[0] = '_';
}

/* 0 or -1 is no bound. */
static int read_range(const struct xml *xml)
{
	struct msccl *msccl = xml->data;
	int blocks = msccl_range_blocks(&msccl->problem);
	int64_t least, most;
	int err = xml_wide(xml, "minBytes", 0, INT64_MAX / 2, 0, &least);

	if (!err)
		err = xml_wide(xml, "maxBytes", -1, INT64_MAX / 2, 0, &most);
	if (err)
		return err;
	msccl->least_bytes = (least + blocks - 1) / blocks;
	msccl->most_bytes = most > 0 ? most / blocks : INT64_MAX;
	if (msccl->most_bytes < msccl->least_bytes)
		return xml_refuse(xml, "no size is between minBytes and maxBytes");
	return 0;
}

static int read_chunks(const struct xml *xml)
{
	struct msccl *msccl = xml->data;
	int blocks = msccl_loop_blocks(&msccl->problem), chunks;
	int err = xml_int(xml, "nchunksperloop", 1, CHUNKS_MAX, 0, &chunks);
	if (err)
		return err;
	if (chunks % blocks)
		return xml_refuse(xml, "nchunksperloop is a multiple of the %d blocks, not %d",
			blocks, chunks);
	msccl->parts = chunks / blocks;
	if ((int64_t)rd_blocks(&msccl->problem) * msccl->parts * msccl->problem.size >
		RD_FILE_CHUNKS_MAX)
		return xml_refuse(xml, "there are too many chunks");
	return read_range(xml);
}

static int read_algo(const struct xml *xml)
{
	struct msccl *msccl = xml->data;
	const char *name, *coll;
	int err = xml_text(xml, "name", &name), collective, in_place;

	if (!err)
		err = xml_text(xml, "coll", &coll);
	if (err)
		return err;
	make_title(msccl->title, name);
	collective = rd_collective_named(coll);
	if (collective < 0 || collective == RD_TRANSFER || collective == RD_BARRIER)
		return xml_refuse(xml, "there is no plan of coll \"%.40s\"", coll);
	msccl->problem.collective = (enum rd_collective)collective;
	err = xml_int(xml, "ngpus", 1, RD_FILE_RANKS_MAX, 0, &msccl->problem.size);
	if (!err)
		err = xml_int(xml, "root", 0,
			rd_collective_has_root(msccl->problem.collective) ? msccl->problem.size - 1
									  : 0,
			0, &msccl->problem.root);
	if (!err)
		err = xml_int(xml, "inplace", 0, 1, 0, &in_place);
	if (err)
		return err;
	/* A name of Rondo's own could not be loaded. */
	if (rd_algorithm_called(msccl->title)) {
		size_t length = strlen(msccl->title), most = RD_FILE_NAME_SIZE - 6;

		snprintf(msccl->title + (length < most ? length : most), 6, "_%d",
			msccl->problem.size);
	}
	msccl->in_place = in_place;
	msccl->scratch = calloc((size_t)msccl->problem.size, sizeof(*msccl->scratch));
	msccl->firsts = calloc((size_t)msccl->problem.size + 1, sizeof(*msccl->firsts));
	if (!msccl->scratch || !msccl->firsts)
		return rd_fail(RONDO_MEMORY, "no memory to read %s", msccl->name);
	return read_chunks(xml);
}

static int read_gpu(const struct xml *xml)
{
	struct msccl *msccl = xml->data;
	int id, err = xml_int(xml, "id", 0, msccl->problem.size - 1, -1, &id);

	if (err)
		return err;
	if (id != msccl->ranks)
		return xml_refuse(xml, "gpu %d is here, not %d", id, msccl->ranks);
	err = xml_int(xml, "s_chunks", 0, CHUNKS_MAX, 0, &msccl->scratch[id]);
	msccl->ranks++;
	msccl->firsts[msccl->ranks] = msccl->block_count;
	return err;
}

/* Makes room for one more in an array. Returns it, or NULL with the reason. */
static void *grow(const struct msccl *msccl, void *array, int count, int *capacity, size_t size)
{
	int room = *capacity ? 2 * *capacity : 16;
	void *grown = array;

	if (count == *capacity) {
		grown = realloc(array, (size_t)room * size);
		if (grown)
			*capacity = room;
		else
			rd_fail(RONDO_MEMORY, "no memory to read %s", msccl->name);
	}
	return grown;
}

static int read_block(const struct xml *xml)
{
	struct msccl *msccl = xml->data;
	int rank = msccl->ranks - 1, most = msccl->problem.size - 1, err;
	struct msccl_block block = { .line = xml->line, .rank = rank };
	struct msccl_block *blocks;

	if (msccl->block_count == BLOCKS_MAX)
		return msccl_refuse(msccl, block.line, "there are more than %d tb", BLOCKS_MAX);
	err = xml_int(xml, "id", 0, BLOCKS_MAX, -1, &block.id);
	if (!err && block.id != msccl->block_count - msccl->firsts[rank])
		err = msccl_refuse(msccl, block.line, "tb %d is here, not %d", block.id,
			msccl->block_count - msccl->firsts[rank]);
	if (!err)
		err = xml_int(xml, "send", -1, most, -1, &block.to);
	if (!err)
		err = xml_int(xml, "recv", -1, most, -1, &block.peer);
	if (!err)
		err = xml_int(xml, "chan", 0, BLOCKS_MAX, 0, &block.channel);
	if (!err && (block.to == rank || block.peer == rank))
		err = msccl_refuse(msccl, block.line, "a tb of gpu %d has itself as a peer", rank);
	if (err)
		return err;
	blocks = grow(msccl, msccl->blocks, msccl->block_count, &msccl->capacity, sizeof(*blocks));
	if (!blocks)
		return RONDO_MEMORY;
	msccl->blocks = blocks;
	blocks[msccl->block_count++] = block;
	msccl->firsts[msccl->ranks] = msccl->block_count;
	return 0;
}

static int read_slot(
	const struct xml *xml, const char *buffer, const char *offset, struct msccl_slot *slot)
{
	const char *text = xml_attribute(xml, buffer);

	slot->buffer = text && *text && !text[1] && strchr("ios", *text) ? *text : '\0';
	if (!slot->buffer)
		return xml_refuse(xml, "%s is i, o or s, not \"%.20s\"", buffer, text ? text : "");
	return xml_int(xml, offset, 0, CHUNKS_MAX, -1, &slot->offset);
}

static int read_type(const struct xml *xml, enum msccl_type *type)
{
	const char *text;
	int err = xml_text(xml, "type", &text);

	for (int i = 0; i < TYPE_COUNT && !err; i++)
		if (strcmp(types[i].text, text) == 0) {
			*type = (enum msccl_type)i;
			return 0;
		}
	return err ? err : xml_refuse(xml, "there is no plan of a step of type \"%.20s\"", text);
}

static int read_places(const struct xml *xml, struct msccl_step *step)
{
	int err = read_slot(xml, "srcbuf", "srcoff", &step->from);

	if (!err)
		err = read_slot(xml, "dstbuf", "dstoff", &step->into);
	return err ? err : xml_int(xml, "cnt", 1, CHUNKS_MAX, 0, &step->count);
}

static int check_peers(
	const struct xml *xml, const struct msccl_block *block, const struct msccl_step *step)
{
	if (msccl_sends(step->type) && block->to < 0)
		return msccl_refuse(
			xml->data, step->line, "its tb, of line %d, sends to no gpu", block->line);
	if (msccl_receives(step->type) && block->peer < 0)
		return msccl_refuse(xml->data, step->line,
			"its tb, of line %d, receives from no gpu", block->line);
	return 0;
}

static int read_step(const struct xml *xml)
{
	struct msccl *msccl = xml->data;
	struct msccl_block *block = &msccl->blocks[msccl->block_count - 1];
	struct msccl_step step = { .line = xml->line, .count = 1 }, *steps;
	int err = read_type(xml, &step.type);

	if (!err && step.type != MSCCL_NOP)
		err = read_places(xml, &step);
	if (!err)
		err = xml_int(xml, "depid", -1, BLOCKS_MAX, -1, &step.after_block);
	if (!err)
		err = xml_int(xml, "deps", -1, CHUNKS_MAX, -1, &step.after_step);
	if (!err)
		err = check_peers(xml, block, &step);
	if (err)
		return err;
	steps = grow(msccl, block->steps, block->step_count, &block->capacity, sizeof(*steps));
	if (!steps)
		return RONDO_MEMORY;
	block->steps = steps;
	steps[block->step_count++] = step;
	return 0;
}

/* ---- The document --------------------------------------------------------------------------- */

static int begin_element(struct xml *xml, const char *name)
{
	static const struct {
		const char *name;
		int (*read)(const struct xml *xml);
	} elements[] = { { "algo", read_algo }, { "gpu", read_gpu }, { "tb", read_block },
		{ "step", read_step } };

	if (xml->depth >= 4 || strcmp(elements[xml->depth].name, name) != 0)
		return xml_misplaced(xml, name);
	return elements[xml->depth].read(xml);
}

/* Each step that others wait for is there. */
static int check_waits(const struct msccl *msccl)
{
	for (int i = 0; i < msccl->block_count; i++)
		for (int k = 0; k < msccl->blocks[i].step_count; k++) {
			const struct msccl_step *step = &msccl->blocks[i].steps[k];
			int rank = msccl->blocks[i].rank, first = msccl->firsts[rank];
			int count = msccl->firsts[rank + 1] - first;

			if (step->after_block < 0)
				continue;
			if (step->after_block >= count || step->after_step < 0 ||
				step->after_step >=
					msccl->blocks[first + step->after_block].step_count)
				return msccl_refuse(msccl, step->line,
					"it waits for step %d of tb %d, which gpu %d has not",
					step->after_step, step->after_block, rank);
		}
	return 0;
}

static int common(int a, int b)
{
	while (b) {
		int rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Makes one chunk of those that all steps move together: a link holds few messages. */
static void join_chunks(struct msccl *msccl)
{
	int together = msccl->parts;

	for (int i = 0; i < msccl->block_count; i++)
		for (int k = 0; k < msccl->blocks[i].step_count; k++) {
			const struct msccl_step *step = &msccl->blocks[i].steps[k];

			if (step->type != MSCCL_NOP)
				together = common(together,
					common(step->count,
						common(step->from.offset, step->into.offset)));
		}
	msccl->parts /= together;
	for (int rank = 0; rank < msccl->ranks; rank++)
		msccl->scratch[rank] /= together;
	for (int i = 0; i < msccl->block_count; i++)
		for (int k = 0; k < msccl->blocks[i].step_count; k++) {
			struct msccl_step *step = &msccl->blocks[i].steps[k];

			step->from.offset /= together;
			step->into.offset /= together;
			if (step->type != MSCCL_NOP)
				step->count /= together;
		}
}

int msccl_parse(struct msccl *msccl, const char *name, const char *text, size_t size)
{
	static const struct xml_reader reader = { begin_element, NULL };
	struct xml xml = { .name = name, .data = msccl };
	int err;

	*msccl = (struct msccl){ .name = name };
	err = xml_read(&xml, &reader, text, size);
	if (!err && msccl->ranks != msccl->problem.size)
		err = xml_refuse(&xml, "here are %d gpu, not the %d of ngpus", msccl->ranks,
			msccl->problem.size);
	if (!err)
		err = check_waits(msccl);
	if (!err)
		join_chunks(msccl);
	return err;
}
