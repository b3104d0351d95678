#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exec/algorithms.h"
#include "msccl.h"

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

#ifndef RD_HAS_EXPAT
int msccl_parse(struct msccl *msccl, const char *name, const char *text, size_t size)
{
	(void)text;
	(void)size;
	*msccl = (struct msccl){ .name = name };
	return rd_fail(RONDO_UNSUPPORTED,
		"%s: this rondo-plan was built without expat, which reads XML", name);
}
#else
#include <expat.h>

struct reading {
	struct msccl *msccl;
	XML_Parser parser;
	int depth; /* of the element at hand: algo is 0 */
	int err;
};

static int line_of(const struct reading *reading)
{
	return (int)XML_GetCurrentLineNumber(reading->parser);
}

/* ---- Attributes ----------------------------------------------------------------------------- */

static const char *attribute(const char **attributes, const char *name)
{
	for (; *attributes; attributes += 2)
		if (strcmp(*attributes, name) == 0)
			return attributes[1];
	return NULL;
}

static int read_text(
	const struct reading *reading, const char **attributes, const char *name, const char **text)
{
	*text = attribute(attributes, name);
	return *text ? 0 : msccl_refuse(reading->msccl, line_of(reading), "%s is missing", name);
}

/* A whole number; `standard`, where that is not below `least`, stands for a missing one. */
static int read_wide(const struct reading *reading, const char **attributes, const char *name,
	int64_t least, int64_t most, int64_t standard, int64_t *number)
{
	const char *text = attribute(attributes, name);
	char *end;

	*number = standard;
	if (!text && standard >= least)
		return 0;
	if (text)
		*number = strtoll(text, &end, 10);
	if (text && *text && !*end && *number >= least && *number <= most)
		return 0;
	return msccl_refuse(reading->msccl, line_of(reading),
		"%s is a whole number from %lld to %lld, not \"%.40s\"", name, (long long)least,
		(long long)most, text ? text : "");
}

static int read_int(const struct reading *reading, const char **attributes, const char *name,
	int least, int most, int standard, int *number)
{
	int64_t wide;
	int err = read_wide(reading, attributes, name, least, most, standard, &wide);

	*number = err ? 0 : (int)wide;
	return err;
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
static int read_range(const struct reading *reading, const char **attributes)
{
	struct msccl *msccl = reading->msccl;
	int blocks = msccl_range_blocks(&msccl->problem);
	int64_t least, most;
	int err = read_wide(reading, attributes, "minBytes", 0, INT64_MAX / 2, 0, &least);

	if (!err)
		err = read_wide(reading, attributes, "maxBytes", -1, INT64_MAX / 2, 0, &most);
	if (err)
		return err;
	msccl->least_bytes = (least + blocks - 1) / blocks;
	msccl->most_bytes = most > 0 ? most / blocks : INT64_MAX;
	if (msccl->most_bytes < msccl->least_bytes)
		return msccl_refuse(
			msccl, line_of(reading), "no size is between minBytes and maxBytes");
	return 0;
}

static int read_chunks(const struct reading *reading, const char **attributes)
{
	struct msccl *msccl = reading->msccl;
	int blocks = msccl_loop_blocks(&msccl->problem), chunks;
	int err = read_int(reading, attributes, "nchunksperloop", 1, CHUNKS_MAX, 0, &chunks);
	if (err)
		return err;
	if (chunks % blocks)
		return msccl_refuse(msccl, line_of(reading),
			"nchunksperloop is a multiple of the %d blocks, not %d", blocks, chunks);
	msccl->parts = chunks / blocks;
	if ((int64_t)rd_blocks(&msccl->problem) * msccl->parts * msccl->problem.size >
		RD_FILE_CHUNKS_MAX)
		return msccl_refuse(msccl, line_of(reading), "there are too many chunks");
	return read_range(reading, attributes);
}

static int read_algo(struct reading *reading, const char **attributes)
{
	struct msccl *msccl = reading->msccl;
	const char *name, *coll;
	int err = read_text(reading, attributes, "name", &name), collective, in_place;

	if (!err)
		err = read_text(reading, attributes, "coll", &coll);
	if (err)
		return err;
	make_title(msccl->title, name);
	collective = rd_collective_named(coll);
	if (collective < 0 || collective == RD_TRANSFER || collective == RD_BARRIER)
		return msccl_refuse(
			msccl, line_of(reading), "there is no plan of coll \"%.40s\"", coll);
	msccl->problem.collective = (enum rd_collective)collective;
	err = read_int(reading, attributes, "ngpus", 1, RD_FILE_RANKS_MAX, 0, &msccl->problem.size);
	if (!err)
		err = read_int(reading, attributes, "root", 0,
			rd_collective_has_root(msccl->problem.collective) ? msccl->problem.size - 1
									  : 0,
			0, &msccl->problem.root);
	if (!err)
		err = read_int(reading, attributes, "inplace", 0, 1, 0, &in_place);
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
	return read_chunks(reading, attributes);
}

static int read_gpu(struct reading *reading, const char **attributes)
{
	struct msccl *msccl = reading->msccl;
	int id, err = read_int(reading, attributes, "id", 0, msccl->problem.size - 1, -1, &id);

	if (err)
		return err;
	if (id != msccl->ranks)
		return msccl_refuse(
			msccl, line_of(reading), "gpu %d is here, not %d", id, msccl->ranks);
	err = read_int(reading, attributes, "s_chunks", 0, CHUNKS_MAX, 0, &msccl->scratch[id]);
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

static int read_block(struct reading *reading, const char **attributes)
{
	struct msccl *msccl = reading->msccl;
	int rank = msccl->ranks - 1, most = msccl->problem.size - 1, err;
	struct msccl_block block = { .line = line_of(reading), .rank = rank };
	struct msccl_block *blocks;

	if (msccl->block_count == BLOCKS_MAX)
		return msccl_refuse(msccl, block.line, "there are more than %d tb", BLOCKS_MAX);
	err = read_int(reading, attributes, "id", 0, BLOCKS_MAX, -1, &block.id);
	if (!err && block.id != msccl->block_count - msccl->firsts[rank])
		err = msccl_refuse(msccl, block.line, "tb %d is here, not %d", block.id,
			msccl->block_count - msccl->firsts[rank]);
	if (!err)
		err = read_int(reading, attributes, "send", -1, most, -1, &block.to);
	if (!err)
		err = read_int(reading, attributes, "recv", -1, most, -1, &block.peer);
	if (!err)
		err = read_int(reading, attributes, "chan", 0, BLOCKS_MAX, 0, &block.channel);
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

static int read_slot(const struct reading *reading, const char **attributes, const char *buffer,
	const char *offset, struct msccl_slot *slot)
{
	const char *text = attribute(attributes, buffer);

	slot->buffer = text && *text && !text[1] && strchr("ios", *text) ? *text : '\0';
	if (!slot->buffer)
		return msccl_refuse(reading->msccl, line_of(reading),
			"%s is i, o or s, not \"%.20s\"", buffer, text ? text : "");
	return read_int(reading, attributes, offset, 0, CHUNKS_MAX, -1, &slot->offset);
}

static int read_type(const struct reading *reading, const char **attributes, enum msccl_type *type)
{
	const char *text;
	int err = read_text(reading, attributes, "type", &text);

	for (int i = 0; i < TYPE_COUNT && !err; i++)
		if (strcmp(types[i].text, text) == 0) {
			*type = (enum msccl_type)i;
			return 0;
		}
	return err ? err
		   : msccl_refuse(reading->msccl, line_of(reading),
			     "there is no plan of a step of type \"%.20s\"", text);
}

static int read_places(
	const struct reading *reading, const char **attributes, struct msccl_step *step)
{
	int err = read_slot(reading, attributes, "srcbuf", "srcoff", &step->from);

	if (!err)
		err = read_slot(reading, attributes, "dstbuf", "dstoff", &step->into);
	return err ? err : read_int(reading, attributes, "cnt", 1, CHUNKS_MAX, 0, &step->count);
}

static int check_peers(const struct reading *reading, const struct msccl_block *block,
	const struct msccl_step *step)
{
	if (msccl_sends(step->type) && block->to < 0)
		return msccl_refuse(reading->msccl, step->line,
			"its tb, of line %d, sends to no gpu", block->line);
	if (msccl_receives(step->type) && block->peer < 0)
		return msccl_refuse(reading->msccl, step->line,
			"its tb, of line %d, receives from no gpu", block->line);
	return 0;
}

static int read_step(struct reading *reading, const char **attributes)
{
	struct msccl *msccl = reading->msccl;
	struct msccl_block *block = &msccl->blocks[msccl->block_count - 1];
	struct msccl_step step = { .line = line_of(reading), .count = 1 }, *steps;
	int err = read_type(reading, attributes, &step.type);

	if (!err && step.type != MSCCL_NOP)
		err = read_places(reading, attributes, &step);
	if (!err)
		err = read_int(reading, attributes, "depid", -1, BLOCKS_MAX, -1, &step.after_block);
	if (!err)
		err = read_int(reading, attributes, "deps", -1, CHUNKS_MAX, -1, &step.after_step);
	if (!err)
		err = check_peers(reading, block, &step);
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

static void begin_element(void *data, const char *name, const char **attributes)
{
	static const struct {
		const char *name;
		int (*read)(struct reading *reading, const char **attributes);
	} elements[] = { { "algo", read_algo }, { "gpu", read_gpu }, { "tb", read_block },
		{ "step", read_step } };
	struct reading *reading = data;

	if (reading->err)
		return;
	if (reading->depth >= 4 || strcmp(elements[reading->depth].name, name) != 0)
		reading->err = msccl_refuse(
			reading->msccl, line_of(reading), "<%.20s> has no place here", name);
	else
		reading->err = elements[reading->depth].read(reading, attributes);
	reading->depth++;
	if (reading->err)
		XML_StopParser(reading->parser, XML_FALSE);
}

static void end_element(void *data, const char *name)
{
	struct reading *reading = data;

	(void)name;
	reading->depth--;
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

static int parse(struct reading *reading, const char *text, size_t size)
{
	struct msccl *msccl = reading->msccl;

	if (size > INT32_MAX)
		return rd_fail(RONDO_INVALID, "%s: more than %d bytes", msccl->name, INT32_MAX);
	if (XML_Parse(reading->parser, text, (int)size, 1) == XML_STATUS_ERROR && !reading->err)
		return msccl_refuse(msccl, line_of(reading), "%s",
			XML_ErrorString(XML_GetErrorCode(reading->parser)));
	if (reading->err)
		return reading->err;
	if (msccl->ranks != msccl->problem.size)
		return msccl_refuse(msccl, line_of(reading), "here are %d gpu, not the %d of ngpus",
			msccl->ranks, msccl->problem.size);
	return check_waits(msccl);
}

int msccl_parse(struct msccl *msccl, const char *name, const char *text, size_t size)
{
	struct reading reading = { .msccl = msccl };
	int err;

	*msccl = (struct msccl){ .name = name };
	reading.parser = XML_ParserCreate(NULL);
	if (!reading.parser)
		return rd_fail(RONDO_MEMORY, "no memory to read %s", name);
	XML_SetUserData(reading.parser, &reading);
	XML_SetElementHandler(reading.parser, begin_element, end_element);
	err = parse(&reading, text, size);
	if (!err)
		join_chunks(msccl);
	XML_ParserFree(reading.parser);
	return err;
}
#endif
