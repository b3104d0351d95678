#include <string.h>

#include "msccl.h"
#include "xml.h"

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

/* ---- Elements ------------------------------------------------------------------------------- */

/* 0 or -1 is no bound. */
static int read_range(const struct xml *xml)
{
	struct msccl *msccl = xml->data;
	int64_t least, most;
	int err = xml_wide(xml, "minBytes", 0, INT64_MAX / 2, 0, &least);

	if (!err)
		err = xml_wide(xml, "maxBytes", -1, INT64_MAX / 2, 0, &most);
	if (err)
		return err;
	msccl_set_range(msccl, least, most > 0 ? most : INT64_MAX);
	if (msccl->most_bytes < msccl->least_bytes)
		return xml_refuse(xml, "no size is between minBytes and maxBytes");
	return 0;
}

static int read_chunks(const struct xml *xml)
{
	struct msccl *msccl = xml->data;
	int blocks = msccl_loop_blocks(&msccl->problem), chunks;
	int err = xml_int(xml, "nchunksperloop", 1, MSCCL_CHUNKS_MAX, 0, &chunks);
	if (err)
		return err;
	if (chunks % blocks)
		return xml_refuse(xml, "nchunksperloop is a multiple of the %d blocks, not %d",
			blocks, chunks);
	msccl->parts = chunks / blocks;
	if (!msccl_chunks_fit(msccl, msccl->parts))
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
	collective = msccl_collective(coll);
	if (collective < 0)
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
	msccl->in_place = in_place;
	err = msccl_begin(msccl, name);
	if (err)
		return err;
	return read_chunks(xml);
}

static int read_gpu(const struct xml *xml)
{
	struct msccl *msccl = xml->data;
	int id, scratch, err = xml_int(xml, "id", 0, msccl->problem.size - 1, -1, &id);

	if (err)
		return err;
	if (id != msccl->ranks)
		return xml_refuse(xml, "gpu %d is here, not %d", id, msccl->ranks);
	err = xml_int(xml, "s_chunks", 0, MSCCL_CHUNKS_MAX, 0, &scratch);
	if (!err)
		msccl_add_rank(msccl, scratch);
	return err;
}

static int read_block(const struct xml *xml)
{
	struct msccl *msccl = xml->data;
	int rank = msccl->ranks - 1, most = msccl->problem.size - 1, err;
	struct msccl_block block = { .line = xml->line, .rank = rank };

	err = xml_int(xml, "id", 0, MSCCL_BLOCKS_MAX, -1, &block.id);
	if (!err && block.id != msccl->block_count - msccl->firsts[rank])
		err = msccl_refuse(msccl, block.line, "tb %d is here, not %d", block.id,
			msccl->block_count - msccl->firsts[rank]);
	if (!err)
		err = xml_int(xml, "send", -1, most, -1, &block.to);
	if (!err)
		err = xml_int(xml, "recv", -1, most, -1, &block.peer);
	if (!err)
		err = xml_int(xml, "chan", 0, MSCCL_BLOCKS_MAX, 0, &block.channel);
	if (!err && (block.to == rank || block.peer == rank))
		err = msccl_refuse(msccl, block.line, "a tb of gpu %d has itself as a peer", rank);
	return err ? err : msccl_add_block(msccl, block);
}

static int read_slot(
	const struct xml *xml, const char *buffer, const char *offset, struct msccl_slot *slot)
{
	const char *text = xml_attribute(xml, buffer);

	slot->buffer = text && *text && !text[1] && strchr("ios", *text) ? *text : '\0';
	if (!slot->buffer)
		return xml_refuse(xml, "%s is i, o or s, not \"%.20s\"", buffer, text ? text : "");
	return xml_int(xml, offset, 0, MSCCL_CHUNKS_MAX, -1, &slot->offset);
}

static int read_type(const struct xml *xml, enum msccl_type *type)
{
	const char *text;
	int err = xml_text(xml, "type", &text);

	for (int i = 0; i < TYPE_COUNT && !err; i++)
		if (types[i].text && strcmp(types[i].text, text) == 0) {
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
	step->with = step->into;
	return err ? err : xml_int(xml, "cnt", 1, MSCCL_CHUNKS_MAX, 0, &step->count);
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
	const struct msccl_block *block = &msccl->blocks[msccl->block_count - 1];
	struct msccl_step step = { .line = xml->line, .count = 1 };
	int err = read_type(xml, &step.type);

	if (!err && step.type != MSCCL_NOP)
		err = read_places(xml, &step);
	if (!err)
		err = xml_int(xml, "depid", -1, MSCCL_BLOCKS_MAX, -1, &step.after_block);
	if (!err)
		err = xml_int(xml, "deps", -1, MSCCL_CHUNKS_MAX, -1, &step.after_step);
	if (!err)
		err = check_peers(xml, block, &step);
	return err ? err : msccl_add_step(msccl, step);
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
		err = msccl_join_chunks(msccl);
	return err;
}
